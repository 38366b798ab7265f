"""The agents that the contract suite is run with."""

from tests.agents.subjects.acp import ACP
from tests.agents.subjects.base import Subject
from tests.agents.subjects.claude import CLAUDE
from tests.agents.subjects.codex import CODEX
from tests.agents.subjects.gemini import GEMINI
from tests.agents.subjects.opencode import OPENCODE

#: By a short name.
SUBJECTS: dict[str, Subject] = {
    "acp": ACP,
    "claude": CLAUDE,
    "codex": CODEX,
    "gemini": GEMINI,
    "opencode": OPENCODE,
}

"""The agents that the contract suite is run with."""

from tests.agents.subjects.base import Subject
from tests.agents.subjects.codex import CODEX

#: By the name a prompt asks for.
SUBJECTS: dict[str, Subject] = {CODEX.agentic_tool: CODEX}

"""The agents that the contract suite is run with."""

from tests.agents.subjects.acp import ACP
from tests.agents.subjects.base import Subject

#: By the name a prompt asks for.
SUBJECTS: dict[str, Subject] = {"acp": ACP}

"""The agents that the contract suite is run with."""

from tests.agents.subjects.base import Subject
from tests.agents.subjects.claude import CLAUDE

#: By the name a prompt asks for.
SUBJECTS: dict[str, Subject] = {subject.agentic_tool: subject for subject in (CLAUDE,)}

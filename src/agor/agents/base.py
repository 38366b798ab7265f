"""What every agent must do.

An `Agent` is one conversation with one kind of agent. It is given one *turn* after the other, and
may keep its program running between them. It knows nothing of connections, sequences or the daemon.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from agor.agents.transcripts import Transcripts
from agor.agents.turn import Turn
from agor.protocol.methods import AgentInfo


class Agent(ABC):
    """One conversation with one kind of coding agent."""

    name: ClassVar[str]
    #: Where it keeps its own record of conversations; none if it keeps none.
    transcripts: ClassVar[Transcripts | None] = None

    @classmethod
    @abstractmethod
    def describe(cls) -> AgentInfo:
        """Tell whether it can be used here, in which version, and if not, why.

        It is asked at every greeting, so this costs no more than a look at some files.
        """

    @classmethod
    def import_ahead(cls) -> None:
        """Import what the first turn would, once for all processes that are forked later."""
        return

    @abstractmethod
    async def run(self, turn: Turn) -> None:
        """Work on the turn's prompt until it is done.

        The first turn goes on with the conversation that `turn.params.resume` names, if it names
        one. Raise `AgorError` to fail with a message for people. When cancelled, end every process
        started for the turn before letting the cancellation through. After a turn that was not
        completed there is no other: the agent is closed, and the next prompt begins with `resume`.
        """

    async def close(self) -> None:
        """End what was kept between turns: gently, and after two seconds at the latest by force.

        It may be called in the middle of a turn, and more than once.
        """
        return

"""An agent's own record of a conversation: read back, restored, and told as blocks.

Agents keep their records in files of their own, in the home of whoever runs them. agor never writes
into a record; it reads it, copies it to where the conversation shall go on, and can tell from it
the same blocks that were told live.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from agor.protocol.transcripts import Transcript, TranscriptBlock


class Transcripts(ABC):
    """The records of one kind of agent, on this machine and for this user."""

    @abstractmethod
    async def read(self, agent_session_id: str, cwd: str) -> Transcript:
        """Read a record; raises `NoTranscript` if there is none."""

    @abstractmethod
    async def restore(self, agent_session_id: str, cwd: str, transcript: Transcript) -> None:
        """Put a record where the agent looks for it, so that it can resume the conversation.

        One that is there already, and has as much or more, stays as it is.
        """

    @abstractmethod
    def paths(self, agent_session_id: str, cwd: str) -> Sequence[Path]:
        """Name the files and folders that change when the record does; for whoever watches."""

    @abstractmethod
    def blocks(self, transcript: Transcript) -> list[TranscriptBlock]:
        """Tell a record as blocks: those that were told live, in the same order."""

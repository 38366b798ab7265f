"""An agent's own record of a conversation: read back, restored, and told as blocks.

Agents keep their records in files of their own, in the home of whoever runs them. agor never writes
into a record; it reads it, copies it to where the conversation shall go on, and can tell from it
the same blocks that were told live.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Raw, Struct

from agor.protocol.events import BlockKind


class SubagentTranscript(Struct, frozen=True):
    """The record of a sub-agent, under the name that the agent has for it."""

    name: str
    lines: list[Raw]


class Transcript(Struct, frozen=True):
    """A record: the lines of the conversation itself, and those of its sub-agents."""

    main: list[Raw]
    subagents: list[SubagentTranscript] = []


class TranscriptBlock(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A block as a record tells it: what a `Message` has, but for its place in the feed."""

    kind: BlockKind
    text: str = ""
    parent_tool_use_id: str | None = None
    tool_use_id: str | None = None
    tool_name: str | None = None
    tool_input: dict[str, Any] | None = None
    is_error: bool = False


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

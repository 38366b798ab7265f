"""The record of an ACP agent, as it replays it when a session is loaded.

Where such an agent keeps its records is its own affair, so none can be put there, and nobody can
watch them. What it replays is all there is: some leave out thinking, or what tools said.
"""

# ruff: noqa: ARG002 - the parameters are those of every record

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Raw

from agor.agents.acp.blocks import Add, Blocks, Change, End, Naming, Start, Step
from agor.agents.acp.launch import Launch
from agor.agents.acp.said import Question
from agor.agents.acp.session import Session
from agor.agents.transcripts import Transcripts
from agor.errors import AgentFailed, NoTranscript
from agor.protocol.transcripts import Transcript, TranscriptBlock

#: Bytes of a record that are read.
_LARGEST = 256 * 1024 * 1024


class Replay(Transcripts):
    """Records that an agent replays."""

    def __init__(self, launch: Callable[[str], Launch], naming: Naming) -> None:
        #: How the program is started in a folder. It needs no key: no model is asked.
        self._launch = launch
        self._naming = naming

    async def read(self, agent_session_id: str, cwd: str) -> Transcript:
        """Start the agent, have it replay the conversation, and end it."""
        session = await Session.connect(self._launch(cwd))
        try:
            return Transcript(main=await _replayed(session, agent_session_id))
        finally:
            await asyncio.shield(session.close())

    async def restore(self, agent_session_id: str, cwd: str, transcript: Transcript) -> None:
        """Refuse: where it would have to be put is not known."""
        raise AgentFailed(
            "the record of an agent over ACP cannot be put anywhere: only the agent knows where",
            hint="Go on where the conversation was, or begin another session.",
        )

    def paths(self, agent_session_id: str, cwd: str) -> Sequence[Path]:
        """Name nothing: it is not known."""
        return ()

    def blocks(self, transcript: Transcript) -> list[TranscriptBlock]:
        """Tell the replay in the same way as it was told live."""
        from acp.schema import SessionNotification

        blocks = Blocks(self._naming, replayed=True)
        told = _Told()
        for line in transcript.main:
            update = SessionNotification.model_validate(msgspec.json.decode(line)).update
            told.take(blocks.take(update))
        told.take(blocks.finish())
        return told.blocks


class _Told:
    """Puts blocks together from their steps."""

    def __init__(self) -> None:
        self._order: list[str] = []
        self._blocks: dict[str, TranscriptBlock] = {}
        self._texts: dict[str, list[str]] = {}

    @property
    def blocks(self) -> list[TranscriptBlock]:
        return [
            msgspec.structs.replace(self._blocks[key], text="".join(self._texts[key]))
            for key in self._order
        ]

    def take(self, steps: Iterable[Step]) -> None:
        replace = msgspec.structs.replace
        for step in steps:
            match step:
                case Start(key, kind, members):
                    self._order.append(key)
                    self._blocks[key] = TranscriptBlock(kind=kind, **members)
                    self._texts[key] = []
                case Add(key, text):
                    self._texts[key].append(text)
                case Change(key, _, tool_input) if tool_input is not None:
                    self._blocks[key] = replace(self._blocks[key], tool_input=tool_input)
                case End(key, is_error):
                    self._blocks[key] = replace(self._blocks[key], is_error=is_error)


async def _replayed(session: Session, session_id: str) -> list[Raw]:
    """Load a session, and keep the lines that the agent says meanwhile."""
    able = session.about.agent_capabilities
    if not (able and able.load_session):
        raise NoTranscript(f"{session.launch.name} does not show its record of a conversation")
    lines: list[Raw] = []
    size = 0

    def keep() -> None:
        nonlocal size
        while (said := session.said.next()) is not None:
            if isinstance(said, Question) or said.session_id != session_id:
                session.pass_over(said)
                continue
            line = said.model_dump_json(by_alias=True, exclude_none=True).encode()
            size += len(line)
            if size > _LARGEST:
                raise NoTranscript(f"the record is larger than {_LARGEST} bytes")
            lines.append(Raw(line))

    async def keep_all() -> None:
        while True:
            await session.said.news()
            keep()

    keeping = asyncio.create_task(keep_all())
    try:
        await session.load(session_id)
    finally:
        keeping.cancel()
    keep()
    if keeping.done() and not keeping.cancelled():
        keeping.result()
    return lines

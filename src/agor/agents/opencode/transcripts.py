"""OpenCode's own records of conversations: read from its database, restored by its own import.

A record is told in lines: the conversation itself, then one line for each message that is whole.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from agor.agents.environment import need_program, program_environment
from agor.agents.handing import handed_files
from agor.agents.opencode import storage
from agor.agents.opencode.config import VARIABLES
from agor.agents.opencode.told import tell
from agor.agents.programs import Program
from agor.agents.transcripts import Transcripts
from agor.errors import AgentFailed, NoTranscript
from agor.protocol.transcripts import Transcript, TranscriptBlock

_ID = re.compile(r"\Ases_[0-9A-Za-z]{1,64}\Z")
#: Seconds for an import; most of it is OpenCode's own start.
_PATIENCE = 90.0

Json = dict[str, Any]


class OpenCodeTranscripts(Transcripts):
    """The records of OpenCode in this user's home."""

    async def read(self, agent_session_id: str, cwd: str) -> Transcript:
        """Read a record."""
        del cwd  # All are in one place.
        return Transcript(main=await asyncio.to_thread(_lines, agent_session_id))

    async def restore(self, agent_session_id: str, cwd: str, transcript: Transcript) -> None:
        """Have OpenCode import a record; what it has already stays as it is."""
        content = _exported(agent_session_id, transcript)
        try:
            there = await self.read(agent_session_id, cwd)
        except NoTranscript:
            there = Transcript()
        if len(there.main) < len(transcript.main):
            await _import(content, cwd)

    def paths(self, agent_session_id: str, cwd: str) -> Sequence[Path]:
        """Name the database, and the file with what was written to it last."""
        del agent_session_id, cwd
        path = storage.database()
        return [path, path.with_name(f"{path.name}-wal")]

    def blocks(self, transcript: Transcript) -> list[TranscriptBlock]:
        """Tell a record as blocks."""
        return tell(msgspec.json.decode(line) for line in transcript.main[1:])


def _lines(session_id: str) -> list[Raw]:
    info, messages = storage.conversation(session_id)
    # One that still grows is no line yet. One that was cut off never ends, but others follow.
    if messages and not _is_whole(messages[-1]["info"]):
        messages.pop()
    return [Raw(msgspec.json.encode(each)) for each in ({"info": info}, *messages)]


def _is_whole(info: Json) -> bool:
    times = info.get("time")
    completed = isinstance(times, dict) and "completed" in times
    return info.get("role") == "user" or completed or "error" in info


def _exported(session_id: str, transcript: Transcript) -> str:
    """Make what OpenCode imports."""
    try:
        first, *messages = (msgspec.json.decode(line) for line in transcript.main)
        info = first["info"]
        fitting = info["id"] == session_id and _ID.match(session_id)
    except (ValueError, KeyError, TypeError, msgspec.DecodeError):
        raise NoTranscript("this is no record of OpenCode") from None
    if not fitting:
        raise NoTranscript(f"this is no record of the conversation {session_id[:200]!r}")
    return msgspec.json.encode({"info": info, "messages": messages}).decode()


async def _import(content: str, cwd: str) -> None:
    with handed_files({"record": content}) as files:
        program = await Program.start(
            (str(need_program("opencode", "opencode")), "import", files.paths["record"]),
            cwd=cwd,
            env=program_environment(VARIABLES),
            name="OpenCode",
            descriptors=files.descriptors,
        )
    try:
        async with asyncio.timeout(_PATIENCE):
            # What it says is short, and it ends after that.
            said = await program.stdout.read()
        if b"Imported session" not in said:
            raise AgentFailed(f"OpenCode cannot take the record: {await program.ended()}")
    except TimeoutError:
        raise AgentFailed(f"OpenCode did not take the record within {_PATIENCE:g} s") from None
    finally:
        await asyncio.shield(program.stop())

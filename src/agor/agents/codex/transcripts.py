"""Codex's own records of conversations: one file of lines for each, by the day it began.

Live blocks and those told from the record are the same, but for this: output of a command's first
moments, which Codex does not stream, stands at the end of the live result if the command ran on;
results of commands that run side by side, and stream, may be in another order; what was said before
a provider's stream broke is told live only; so are a person's answers to questions, as input, and a
command of a script that was denied without a reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from agor.agents.codex.home import codex_home
from agor.agents.codex.retelling import retell
from agor.agents.transcripts import Transcripts
from agor.errors import NoTranscript
from agor.protocol.transcripts import SubagentTranscript, Transcript, TranscriptBlock

#: How a line names a sub-agent; in text of any kind the quotes would be escaped.
_AGENT = re.compile(rb'"agent_thread_id":"([0-9A-Za-z-]{1,64})"')
_ID = re.compile(r"\A[0-9A-Za-z-]{1,64}\Z")


class CodexTranscripts(Transcripts):
    """The records of Codex in this user's home."""

    async def read(self, agent_session_id: str, cwd: str) -> Transcript:
        """Read a record."""
        del cwd  # Codex keeps them by time.
        return await asyncio.to_thread(_read, agent_session_id)

    async def restore(self, agent_session_id: str, cwd: str, transcript: Transcript) -> None:
        """Put a record where Codex finds it."""
        del cwd
        await asyncio.to_thread(_restore, agent_session_id, transcript.main)
        for agent in transcript.subagents:
            await asyncio.to_thread(_restore, agent.name, agent.lines)

    def paths(self, agent_session_id: str, cwd: str) -> Sequence[Path]:
        """Name the file of a record; the folder of all while there is none."""
        del cwd
        return [_find(agent_session_id) or _sessions()]

    def blocks(self, transcript: Transcript) -> list[TranscriptBlock]:
        """Tell a record as blocks."""
        try:
            return retell(transcript)
        except (KeyError, TypeError, AttributeError, ValueError, msgspec.DecodeError) as error:
            raise NoTranscript(
                f"codex's record of the conversation is not understood: {error!r}",
                hint="Install the version that agor was tested with: `agor agent install codex`.",
            ) from error


def _sessions() -> Path:
    return codex_home() / "sessions"


def _find(agent_session_id: str) -> Path | None:
    if not _ID.match(agent_session_id):
        return None
    found = _sessions().glob(f"*/*/*/rollout-*-{agent_session_id}.jsonl")
    return next(iter(sorted(found, reverse=True)), None)


def _read(agent_session_id: str) -> Transcript:
    path = _find(agent_session_id)
    if path is None:
        raise NoTranscript(f"codex has no record of the conversation {agent_session_id} here")
    main = _lines(path)
    agents: dict[str, list[Raw]] = {}
    _read_agents(main, agents)
    return Transcript(main, [SubagentTranscript(*each) for each in agents.items()])


def _read_agents(lines: Sequence[Raw], agents: dict[str, list[Raw]]) -> None:
    """Add the records of the sub-agents that are begun in these lines, and of theirs."""
    for name in dict.fromkeys(
        found[1].decode() for line in lines for found in _AGENT.finditer(line)
    ):
        path = _find(name)
        if name not in agents and path is not None:
            agents[name] = _lines(path)
            _read_agents(agents[name], agents)


def _lines(path: Path) -> list[Raw]:
    # The last line may be half written.
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    return [Raw(line) for line in whole.split(b"\n") if line]


def _restore(agent_session_id: str, lines: Sequence[Raw]) -> None:
    path = _find(agent_session_id)
    if path is not None and len(_lines(path)) >= len(lines):
        return
    path = path or _place(agent_session_id, lines)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(bytes(line) + b"\n" for line in lines)
        Path(name).rename(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def _place(agent_session_id: str, lines: Sequence[Raw]) -> Path:
    """Choose the file's name as Codex does: by the moment the conversation began."""
    try:
        first: dict[str, Any] = msgspec.json.decode(lines[0])
        began = datetime.fromisoformat(first["payload"]["timestamp"])
    except (IndexError, KeyError, TypeError, ValueError, msgspec.DecodeError):
        raise NoTranscript("this is no record of Codex: it does not say when it began") from None
    if not _ID.match(agent_session_id):
        raise NoTranscript(f"codex has no conversation of this name: {agent_session_id!r}")
    return (
        _sessions()
        / f"{began:%Y/%m/%d}"
        / f"rollout-{began:%Y-%m-%dT%H-%M-%S}-{agent_session_id}.jsonl"
    )

"""Claude's own records: `~/.claude/projects/<folder>/<conversation>.jsonl`, a message a line.

Sub-agents have files of their own in `<conversation>/subagents/`, each with a small one beside it
that tells which tool call started it. Thinking is kept. An input that was changed by who allowed a
call is not: the record has what the model asked for.
"""

from __future__ import annotations

import asyncio
import os
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Raw

from agor.agents.claude.recorded import blocks_of
from agor.agents.transcripts import Transcripts
from agor.errors import InvalidParams, NoTranscript
from agor.protocol.transcripts import SubagentTranscript, Transcript, TranscriptBlock
from agor.protocol.validation import UNREADABLE, quoted

_ODD = re.compile(r"[^a-zA-Z0-9]")
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,200}")
_FILE_OF_SUBAGENT = re.compile(r"agent-[A-Za-z0-9_-]{1,200}\.(jsonl|meta\.json)")
#: Characters of a folder's name; Claude cuts longer ones and adds a number that only it can tell.
_LONGEST = 200


class ClaudeTranscripts(Transcripts):
    """The records of whoever runs this process."""

    async def read(self, agent_session_id: str, cwd: str) -> Transcript:
        """Read a record with those of its sub-agents."""
        path = self.need(agent_session_id, cwd)
        return await asyncio.to_thread(_read, path)

    async def restore(self, agent_session_id: str, cwd: str, transcript: Transcript) -> None:
        """Write a record where `--resume` looks for it."""
        path = _path(agent_session_id, cwd)
        for each in transcript.subagents:
            if not _FILE_OF_SUBAGENT.fullmatch(each.name):
                raise InvalidParams(f"Claude has no sub-agent's record {quoted(each.name)}")
        await asyncio.to_thread(_restore, path, transcript)

    def paths(self, agent_session_id: str, cwd: str) -> Sequence[Path]:
        """Name the record, its sub-agents' folder, and what is in there."""
        path = _path(agent_session_id, cwd)
        folder = _folder_of_subagents(path)
        return [path, folder, *sorted(folder.glob("agent-*.jsonl"))]

    def blocks(self, transcript: Transcript) -> list[TranscriptBlock]:
        """Tell a record as blocks."""
        return blocks_of(transcript)

    def need(self, agent_session_id: str, cwd: str) -> Path:
        """Find a record, or say that it is not here."""
        path = _path(agent_session_id, cwd)
        if not path.is_file():
            raise NoTranscript(
                f"Claude Code has no record of the conversation {quoted(agent_session_id)} here",
                hint="It is kept in the home of the Unix user and for the folder where it began.",
            )
        return path


def _path(agent_session_id: str, cwd: str) -> Path:
    if not _PLAIN.fullmatch(agent_session_id):
        raise NoTranscript(f"{quoted(agent_session_id)} is no conversation of Claude Code's")
    projects = Path.home() / ".claude" / "projects"
    name = _ODD.sub("-", unicodedata.normalize("NFC", os.path.realpath(cwd)))
    folder = projects / name
    if len(name) > _LONGEST:
        alike = sorted(projects.glob(f"{name[:_LONGEST]}-*"))
        folder = alike[0] if alike else folder
    return folder / f"{agent_session_id}.jsonl"


def _folder_of_subagents(path: Path) -> Path:
    return path.with_suffix("") / "subagents"


def _read(path: Path) -> Transcript:
    subagents = [
        SubagentTranscript(each.name, _lines(each))
        for each in sorted(_folder_of_subagents(path).glob("agent-*"))
        if _FILE_OF_SUBAGENT.fullmatch(each.name)
    ]
    return Transcript(_lines(path), subagents)


def _lines(path: Path) -> list[Raw]:
    """Read the lines that are whole: the last one may be under way, or was cut by a crash."""
    found = []
    for line in path.read_bytes().split(b"\n"):
        try:
            found.append(msgspec.json.decode(line, type=Raw))
        except UNREADABLE:
            continue
    return found


def _restore(path: Path, transcript: Transcript) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in transcript.subagents:
        folder = _folder_of_subagents(path)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(folder / each.name, each.lines)
    # The conversation itself comes last: once it is there, all of it is.
    _write(path, transcript.main)


def _write(path: Path, lines: list[Raw]) -> None:
    if path.is_file() and len(_lines(path)) >= len(lines):
        return
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.writelines(bytes(line) + b"\n" for line in lines)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)

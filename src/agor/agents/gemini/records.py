"""Where Gemini CLI keeps its records: `~/.gemini/tmp/<project>/chats/session-<time>-<id>.jsonl`.

Which folder belongs to which project is noted in each of them. A record is written a line at a
time; a line may replace one before it, by its id. Records of sub-agents are in a folder beside it.

They lack: the input of a call that was denied, thinking in its place between texts (it comes before
the text of its message), and text of turns that were stopped.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from agor.agents.gemini.told import calls_in, count_replayed, tell
from agor.agents.transcripts import Transcripts
from agor.errors import NoTranscript
from agor.protocol.transcripts import SubagentTranscript, Transcript, TranscriptBlock
from agor.protocol.validation import UNREADABLE

_MARKER = ".project_root"
#: The name that it gives a record: by the minute, and the beginning of the id.
_BY_MINUTE = re.compile(
    r"^session-(?P<minute>\d{4}-\d\d-\d\dT\d\d-\d\d)-(?P<id>[A-Za-z0-9]{8})\.jsonl$"
)
#: Seconds until a call that is over is in the record; it is written right after we are told.
_WRITTEN = 2.0
_LOOK = 0.01


class GeminiRecords(Transcripts):
    """The records of Gemini CLI."""

    async def read(self, agent_session_id: str, cwd: str) -> Transcript:
        """Read the lines of a record and of those of its sub-agents."""
        return await asyncio.to_thread(_read, agent_session_id, cwd)

    async def restore(self, agent_session_id: str, cwd: str, transcript: Transcript) -> None:
        """Write a record where it is looked for, unless one is there that has as much."""
        await asyncio.to_thread(_restore, agent_session_id, cwd, transcript)

    def paths(self, agent_session_id: str, cwd: str) -> Sequence[Path]:
        """Name the record, and the folder where another one would be."""
        path = find(agent_session_id, cwd)
        return [] if path is None else [path, path.parent / agent_session_id]

    def blocks(self, transcript: Transcript) -> list[TranscriptBlock]:
        """Tell a record as blocks."""
        return tell(_decoded(transcript.main))


class Following:
    """A record that is read on while its conversation goes on."""

    def __init__(self, session_id: str, cwd: str) -> None:
        self._path = find(session_id, cwd)
        self._place = 0 if self._path is None else self._path.stat().st_size
        self._calls: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._taken: set[str] = set()

    async def wait_for(self, call_id: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Wait until a call is in the record: its input, and what it answered."""
        until = asyncio.get_running_loop().time() + _WRITTEN
        while self._path is not None:
            await asyncio.to_thread(self._read_on, self._path)
            found = self._calls.pop(call_id, None)
            if found is not None:
                self._taken.add(call_id)
            if found is not None or asyncio.get_running_loop().time() > until:
                return found
            # A file tells nobody that it has grown, but for what is Linux-only.
            await asyncio.sleep(_LOOK)
        return None

    def _read_on(self, path: Path) -> None:
        with path.open("rb") as file:
            file.seek(self._place)
            whole, _, _ = file.read().rpartition(b"\n")
        if whole:
            self._place += len(whole) + 1
            # A line tells again what others of its message told before.
            found = calls_in(_decoded(whole.split(b"\n")))
            self._calls |= {name: call for name, call in found.items() if name not in self._taken}


def find(session_id: str, cwd: str) -> Path | None:
    """Find the record of a conversation. An empty one of the same id may be beside it."""
    return max(_all(session_id, cwd), key=lambda path: path.stat().st_size, default=None)


def _all(session_id: str, cwd: str) -> list[Path]:
    project = _project(cwd)
    if project is None:
        return []
    return [
        path
        for path in (project / "chats").glob(f"session-*-{_short(session_id)}.jsonl")
        if _session_of(path) == session_id
    ]


def may_be_loaded(session_id: str, cwd: str) -> bool:
    """Tell whether there is an answer in a record; without any record, Gemini CLI has the word."""
    path = find(session_id, cwd)
    return path is None or _has_answer(path)


def make_loadable(session_id: str, cwd: str) -> None:
    """See to it that loading a record cannot destroy it.

    Before it looks for the record, Gemini CLI begins another one, named by the minute. In the
    minute of the conversation's beginning that is the same file, and what was said is lost; so the
    record is renamed. And each loading leaves such an empty one behind: when it is started, Gemini
    CLI removes it, and whatever else is of the same id. So we remove it first, and it alone.
    """
    path = find(session_id, cwd)
    for other in _all(session_id, cwd):
        if other != path and not _has_answer(other):
            other.unlink(missing_ok=True)
    if path is not None and (named := _BY_MINUTE.match(path.name)):
        path.rename(path.with_name(f"session-{named['minute']}-00-{named['id']}.jsonl"))


def _has_answer(path: Path) -> bool:
    return b'"type":"gemini"' in path.read_bytes()


def replayed_updates(session_id: str, cwd: str) -> int:
    """Count the updates with which a conversation is replayed when it is loaded."""
    path = find(session_id, cwd)
    return 0 if path is None else count_replayed(_decoded(path.read_bytes().split(b"\n")))


def _read(session_id: str, cwd: str) -> Transcript:
    path = find(session_id, cwd)
    if path is None:
        raise NoTranscript(f"Gemini CLI has no record of the conversation {session_id} here")
    others = sorted((path.parent / session_id).glob("*.jsonl"))
    return Transcript(
        main=_lines(path),
        subagents=[SubagentTranscript(name=each.stem, lines=_lines(each)) for each in others],
    )


def _restore(session_id: str, cwd: str, transcript: Transcript) -> None:
    present = find(session_id, cwd)
    if present is not None and len(_lines(present)) >= len(transcript.main):
        return
    chats = (_project(cwd) or _new_project(cwd)) / "chats"
    chats.mkdir(parents=True, exist_ok=True)
    path = present or chats / f"session-1970-01-01T00-00-00-{_short(session_id)}.jsonl"
    _write(path, transcript.main)
    for other in transcript.subagents:
        folder = chats / session_id
        folder.mkdir(exist_ok=True)
        _write(folder / f"{Path(other.name).name}.jsonl", other.lines)


def _project(cwd: str) -> Path | None:
    """Find the folder of a project by the note in it."""
    for marker in sorted(_base().glob(f"*/{_MARKER}")):
        try:
            if marker.read_text().strip() == cwd:
                return marker.parent
        except (OSError, UnicodeDecodeError):
            continue
    return None


def _new_project(cwd: str) -> Path:
    """Make the folder of a project, under a name that no other has."""
    name = re.sub(r"[^a-z0-9]+", "-", Path(cwd).name.lower()).strip("-") or "project"
    for number in range(10_000):
        folder = _base() / (name if number == 0 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        (folder / _MARKER).write_text(cwd)
        return folder
    raise NoTranscript(f"there is no room for the record in {_base()}")


def _base() -> Path:
    return Path.home() / ".gemini" / "tmp"


def _short(session_id: str) -> str:
    # It becomes part of a path.
    return re.sub(r"[^A-Za-z0-9_-]", "", session_id[:8])


def _session_of(path: Path) -> object:
    try:
        with path.open("rb") as file:
            head = msgspec.json.decode(file.readline())
    except (OSError, *UNREADABLE):
        return None
    return head.get("sessionId") if isinstance(head, dict) else None


def _lines(path: Path) -> list[Raw]:
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    return [Raw(line) for line in whole.split(b"\n") if line.strip()]


def _write(path: Path, lines: Sequence[Raw]) -> None:
    path.write_bytes(b"".join(bytes(line) + b"\n" for line in lines))


def _decoded(lines: Sequence[Raw | bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            found = msgspec.json.decode(line)
        except UNREADABLE:
            continue
        if isinstance(found, dict):
            yield found

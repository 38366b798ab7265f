"""What must be known of an executor to take it back: a small record, kept in some store."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from agor.daemon.pool.ending import Ending
from agor.protocol.launching import Family


class ExecutorRecord(Struct, frozen=True, kw_only=True):
    """One executor, as a daemon that comes after us needs to know it."""

    executor_id: str
    session_id: str
    user_id: str
    unix_user: str
    started_at: float
    #: The terminal that it is for; none if it is for the session's tasks.
    terminal_id: str | None = None
    family: Family

    @property
    def seat(self) -> str:
        """Name what has the executor to itself."""
        return self.terminal_id or self.session_id


class Records(Protocol):
    """Where records are kept. A record is saved before its executor gets any work."""

    async def save(self, record: ExecutorRecord) -> None:
        """Keep a record."""

    async def ended(self, ending: Ending) -> None:
        """Forget one of which nothing is left; it may be forgotten already."""

    async def load(self) -> list[ExecutorRecord]:
        """List all that are kept."""


class FileRecords:
    """Records as files in a folder, one each, written whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for unfinished in folder.glob("*.new"):
            unfinished.unlink(missing_ok=True)

    async def save(self, record: ExecutorRecord) -> None:
        """Write beside and rename."""
        path = self._folder / f"{record.executor_id}.json"
        fresh = path.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(record))
        fresh.replace(path)

    async def ended(self, ending: Ending) -> None:
        """Remove its file."""
        if ending.survivors == 0:
            (self._folder / f"{ending.executor_id}.json").unlink(missing_ok=True)

    async def load(self) -> list[ExecutorRecord]:
        """Read every file; one that cannot be read is as good as none."""
        found = []
        for path in sorted(self._folder.glob("*.json")):
            with contextlib.suppress(OSError, msgspec.DecodeError):
                found.append(msgspec.json.decode(path.read_bytes(), type=ExecutorRecord))
        return found

"""The note that a restore leaves for the next daemon: its database is one of an earlier time.

The daemon records it in the audit log, runs no prompt of that time again, and removes the note.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec
from msgspec import Struct

from agor.errors import BadInput
from agor.home import Home

NAME = "restored.json"


class Restored(Struct, frozen=True, kw_only=True):
    """What was restored, and what it replaced."""

    #: When the backup was made, and when it was restored: milliseconds since 1970.
    backup_from: int
    restored_at: int
    #: The last record of the audit log that is in the backup.
    audit_number: int
    #: The last anchor of the log that it replaced; records after `audit_number` are only there.
    replaced_number: int | None = None
    replaced_hash: str | None = None


def place(home: Home) -> Path:
    """Tell where the note is."""
    return home.folder / NAME


def read(home: Home) -> Restored | None:
    """Read the note, if there is one."""
    path = place(home)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Restored)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise BadInput(
            f"cannot read {path}: {error}",
            hint="It was left by agor restore. If you know what was restored, remove it.",
        ) from error


def forget(home: Home) -> None:
    """Remove the note."""
    with contextlib.suppress(FileNotFoundError):
        place(home).unlink()

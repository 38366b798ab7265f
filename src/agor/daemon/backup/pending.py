"""The last part of a restore: files change places by a plan that outlives whoever carries it out.

The plan is written, synced, when everything new is verified and lies beside its place. From then on
the restore counts, and is only ever finished: by the command, or if that was killed by the next
daemon or the next restore, before they look at anything else. Before that nothing was touched.

On PostgreSQL the database changes by one transaction, which also makes the schema that the old
tables move to. If that schema is there, the restore counts; if not, the plan is dropped. That it
counts is written into the plan before the first move: the settings that name the database may be
one of the files that move.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
from msgspec import Struct

from agor import private
from agor.config import load
from agor.errors import BackupFailed
from agor.home import Home

_NAME = "restore-plan.json"


class Move(Struct, frozen=True):
    """A file that takes a place; what was there goes aside. Without a new one the place is free."""

    new: str | None
    place: str
    aside: str


class Plan(Struct, frozen=True, kw_only=True):
    """What is still to be done."""

    moves: list[Move]
    #: Folders of ours that are removed at the end.
    staging: list[str]
    #: PostgreSQL, until it is known that the restore counts: the schema for the old tables, and a
    #: folder with the configuration to reach it.
    schema_aside: str | None = None
    config_folder: str | None = None


def plan_file(home: Home) -> Path:
    """Tell where the plan is."""
    return home.folder / _NAME


def refuse_if_pending(home: Home) -> None:
    """Refuse to look at a home in which a restore was interrupted."""
    if plan_file(home).exists():
        raise BackupFailed(
            f"a restore of {home.folder} was interrupted",
            hint="agor daemon start finishes it, and so does another agor restore.",
        )


async def finish_pending(home: Home) -> bool:
    """Finish a restore that was interrupted; False if there is none. The caller locks the home."""
    path = plan_file(home)
    try:
        plan = msgspec.json.decode(path.read_bytes(), type=Plan)
    except FileNotFoundError:
        return False
    except msgspec.DecodeError as error:
        raise BackupFailed(
            f"{path} cannot be read: {error}", hint="It was changed by hand; put it back."
        ) from error
    if await _counts(plan):
        if plan.schema_aside is not None:
            decided = msgspec.structs.replace(plan, schema_aside=None, config_folder=None)
            private.write(path, msgspec.json.encode(decided))
        for move in plan.moves:
            _carry_out(move)
    for folder in plan.staging:
        shutil.rmtree(folder, ignore_errors=True)
    path.unlink()
    private.sync_folder(home.folder)
    return True


async def _counts(plan: Plan) -> bool:
    if plan.schema_aside is None or plan.config_folder is None:
        return True
    from agor.daemon.backup import postgres_restore

    url = load(Path(plan.config_folder)).database.url
    return await postgres_restore.has_schema(url, plan.schema_aside)


def _carry_out(move: Move) -> None:
    """Do one step; it may have been done before, or half."""
    place, aside = Path(move.place), Path(move.aside)
    new = None if move.new is None else Path(move.new)
    if new is not None and not new.exists():
        return
    with private.telling(place):
        if place.exists() and not aside.exists():
            aside.parent.mkdir(mode=0o700, exist_ok=True)
            place.rename(aside)
            private.sync_folder(aside.parent)
        if new is not None:
            new.rename(place)
        private.sync_folder(place.parent)

"""Restores a backup into a home: verified beside its place, then put there all at once.

Nothing is destroyed: what was there goes into a folder `before-restore-…` beside it (a schema of
that kind on PostgreSQL). The settings and the master key of the home stay if there are any.
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from agor import private
from agor.config import Config, load
from agor.config.database_url import without_password
from agor.config.keys import DatabaseConfig
from agor.daemon.backup import archive, sqlite_snapshot
from agor.daemon.backup.archive import ANCHORS, CONFIG, DATABASE, MASTER_KEY, Archive, Manifest
from agor.daemon.backup.backup import key_place
from agor.daemon.backup.pending import Move, Plan, finish_pending, plan_file
from agor.daemon.backup.working_folder import WorkingFolder
from agor.daemon.services import restored
from agor.daemon.services.audit.anchors import AnchorFile
from agor.daemon.services.restored import Restored
from agor.daemon.services.stamps import now
from agor.daemon.store.connect import file_of
from agor.daemon.store.migrate import needs_upgrade
from agor.daemon.store.sqlite.file import DatabaseFile
from agor.errors import BackupFailed, BadInput
from agor.home import Home

#: How the folders begin in which everything is verified before it takes its place.
_STAGING = ".restore-"
#: Asks a person whether to go on: the database, and whether there is one to move aside.
Confirm = Callable[[Manifest, str, bool], bool]


class Done(NamedTuple):
    """A backup that was restored."""

    manifest: Manifest
    #: The database, without a password.
    database: str
    #: Where the database went that was there before.
    aside: str | None
    audit_fault: str | None
    #: Where the master key belongs, and whether it is there or not needed.
    master_key: str
    has_master_key: bool
    #: Whether the home had settings of its own.
    kept_config: bool


async def restore_backup(home: Home, path: Path, confirm: Confirm) -> Done | None:
    """Put a backup in place; None if the person said no. Refused while a daemon runs."""
    with home.lock(restoring=True):
        await finish_pending(home)
        with archive.opened(path) as opened:
            return await _Restore(home, opened).run(confirm)


class _Restore:
    """One restore, on a home that is locked."""

    def __init__(self, home: Home, opened: Archive) -> None:
        self._home = home
        self._archive = opened
        self._manifest = opened.manifest
        stamp = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"
        self._aside = f"before-restore-{stamp}"
        self._folders: list[WorkingFolder] = []

    async def run(self, confirm: Confirm) -> Done | None:
        # Says so if the schema is newer than this program.
        needs_upgrade(set(), self._manifest.schema)
        try:
            return await self._run(confirm)
        finally:
            # A plan that is not finished needs them.
            needed = plan_file(self._home).exists()
            for folder in self._folders:
                if needed:
                    folder.release()
                else:
                    folder.remove()

    async def _run(self, confirm: Confirm) -> Done | None:
        self._staging = self._working_folder(self._home.folder, _STAGING)
        kept_config = self._home.config_file.exists()
        for name in (CONFIG, ANCHORS, MASTER_KEY):
            if name in self._manifest.members:
                self._archive.extract(name, self._staging / name)
        config = self._config(kept_config)
        url = config.database.url
        self._check_kind(url)
        if (file := file_of(url)) is not None:
            found = await self._sqlite(file.resolve(), config, url, confirm)
        else:
            found = await self._postgres(url, config, confirm, kept_config)
        if found is None:
            return None
        aside, fault = found
        key = self._home.path(config.credentials.key_file)
        has_key = config.credentials.master_key != "file" or key.exists()
        has_key = has_key or not self._manifest.credentials
        place = key_place(config, self._home)
        shown = without_password(url)
        return Done(self._manifest, shown, aside, fault, place, has_key, kept_config)

    # ── the database ─────────────────────────────────────────────────────────────────────────

    async def _sqlite(
        self, file: Path, config: Config, url: str, confirm: Confirm
    ) -> tuple[str | None, str | None] | None:
        with private.telling(file):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The prefix has the name of the database: an unfinished plan of another home needs the
        # folder beside its own database, which may be in the same place.
        fresh = self._working_folder(file.parent, f".{file.name}{_STAGING}") / DATABASE
        self._archive.extract(DATABASE, fresh)
        anchors = AnchorFile(self._staging / ANCHORS).read()
        found = await sqlite_snapshot.check(fresh, anchors)
        sqlite_snapshot.forget_executors(fresh)
        async with _claimed(file):
            there = file.exists()
            if not confirm(self._manifest, without_password(url), there):
                return None
            beside = [file.with_name(f"{file.name}{suffix}") for suffix in ("-wal", "-shm")]
            moves = [self._move(None, each) for each in beside if each.exists()]
            moves.append(self._move(fresh, file))
            self._write_plan([*moves, *self._moves_at_home(config)])
            await finish_pending(self._home)
        return (str(self._put_aside(file)) if there else None), found.audit_fault

    async def _postgres(
        self, url: str, config: Config, confirm: Confirm, kept_config: bool
    ) -> tuple[str | None, str | None] | None:
        from agor.daemon.backup.postgres_restore import Target

        dump = self._staging / DATABASE
        self._archive.extract(DATABASE, dump)
        schema = f"agor_{self._aside.replace('-', '_')}"
        target = await Target.open(url, self._manifest.namespace)
        try:
            there = target.revision is not None
            if not confirm(self._manifest, without_password(url), there):
                return None
            folder = self._home.folder if kept_config else self._staging
            self._write_plan(self._moves_at_home(config), schema, folder)
            try:
                await target.replace(dump, schema)
            finally:
                # It counts if the transaction was committed, whatever happened to us since.
                await finish_pending(self._home)
            if not there:
                await target.drop_empty(schema)
        finally:
            await target.close()
        return (f"the schema {schema} of {without_password(url)}" if there else None), None

    # ── the files of the home ────────────────────────────────────────────────────────────────

    def _config(self, kept: bool) -> Config:
        """Read the settings that will hold: those of the home, else those of the backup."""
        if kept:
            return load(self._home.folder)
        config = load(self._staging)
        url = config.database.url.replace(str(self._staging), str(self._home.folder), 1)
        return dataclasses.replace(config, database=DatabaseConfig(url=url))

    def _check_kind(self, url: str) -> None:
        kind = "postgresql" if file_of(url) is None else "sqlite"
        if kind != self._manifest.database:
            raise BackupFailed(
                f"the backup is of a database of the kind {self._manifest.database}, and "
                f"database.url names {without_password(url)}",
                hint="Set database.url to a database of that kind: agor config set database.url …",
            )

    def _moves_at_home(self, config: Config) -> list[Move]:
        home = self._home
        staged = self._staging / ANCHORS
        moves = [self._move(staged if staged.exists() else None, home.anchor_file)]
        if not home.config_file.exists() and (self._staging / CONFIG).exists():
            moves.append(self._move(self._staging / CONFIG, home.config_file))
        key = home.path(config.credentials.key_file)
        staged = self._staging / MASTER_KEY
        if not key.exists() and staged.exists() and _same_disk(staged, key.parent):
            moves.append(self._move(self._staging / MASTER_KEY, key))
        note = self._staging / restored.NAME
        private.write(note, msgspec.json.encode(self._note()))
        moves.append(self._move(note, restored.place(home)))
        return moves

    def _note(self) -> Restored:
        last = None
        # What cannot be read is moved aside like any other.
        with contextlib.suppress(BadInput):
            last = next(reversed(AnchorFile(self._home.anchor_file).read()), None)
        return Restored(
            backup_from=self._manifest.created_at,
            restored_at=now(),
            audit_number=self._manifest.audit_number,
            replaced_number=None if last is None else last.number,
            replaced_hash=None if last is None else last.hash.hex(),
        )

    def _working_folder(self, parent: Path, prefix: str) -> Path:
        with private.telling(parent / f"{prefix}*"):
            folder = WorkingFolder(parent, prefix)
        self._folders.append(folder)
        return folder.path

    # ── the plan ─────────────────────────────────────────────────────────────────────────────

    def _move(self, new: Path | None, place: Path) -> Move:
        return Move(None if new is None else str(new), str(place), str(self._put_aside(place)))

    def _put_aside(self, place: Path) -> Path:
        return place.parent / self._aside / place.name

    def _write_plan(
        self, moves: list[Move], schema: str | None = None, config: Path | None = None
    ) -> None:
        plan = Plan(
            moves=moves,
            staging=[str(folder.path) for folder in self._folders],
            schema_aside=schema,
            config_folder=None if config is None else str(config),
        )
        private.write(plan_file(self._home), msgspec.json.encode(plan))


def _same_disk(one: Path, folder: Path) -> bool:
    """Tell whether a rename can move a file into a folder."""
    return folder.is_dir() and one.stat().st_dev == folder.stat().st_dev


@contextlib.asynccontextmanager
async def _claimed(file: Path) -> AsyncIterator[None]:
    """Keep daemons of other homes, and what a killed one left, out of a database file."""
    if not file.exists():
        yield
        return
    claimed = DatabaseFile(file)
    claimed.claim()
    try:
        yield
    finally:
        claimed.release()

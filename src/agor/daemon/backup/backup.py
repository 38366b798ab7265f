"""Makes a backup of a home, while its daemon runs or while none does.

It reads the database itself, as the user that the home belongs to: there is no way through the API,
so nobody who may only talk to the daemon can get a copy of everything. The order matters: anchors
first, since each was noted after its record; the copy then has all records that they speak of.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NamedTuple

import agor
from agor.config import Config, load
from agor.config.database_url import without_password
from agor.daemon.backup import archive, sqlite_snapshot
from agor.daemon.backup.archive import ANCHORS, CONFIG, DATABASE, MASTER_KEY, Manifest
from agor.daemon.backup.key_file import KeyFile, read
from agor.daemon.backup.pending import refuse_if_pending
from agor.daemon.backup.snapshot import Snapshot
from agor.daemon.backup.working_folder import working_folder
from agor.daemon.services.audit.anchors import Anchor, AnchorFile
from agor.daemon.services.stamps import now
from agor.daemon.store.connect import file_of
from agor.errors import BackupFailed
from agor.home import Home


class Made(NamedTuple):
    """A backup that was made."""

    path: Path
    size: int
    manifest: Manifest
    #: The database, without a password.
    database: str
    audit_fault: str | None
    #: Where the master key is kept, as people are told.
    master_key: str


async def make_backup(
    home: Home, path: Path, *, force: bool = False, include_master_key: bool = False
) -> Made:
    """Write a backup to a new file; whatever fails, there is nothing half done at `path`."""
    _refuse_if_not_ours(home)
    refuse_if_pending(home)
    path = path.absolute()
    archive.refuse_to_replace(path, force=force)
    config = load(home.folder)
    try:
        with working_folder(path.parent, ".agor-backup-") as folder:
            manifest, fault = await _make(home, config, path, folder, include_master_key, force)
    except OSError as error:
        raise BackupFailed(
            f"cannot write the backup to {path.parent}: {error.strerror}",
            hint="It needs twice the space of the database there while it is made."
            if error.errno == errno.ENOSPC
            else None,
        ) from error
    shown = without_password(config.database.url)
    size = path.stat().st_size
    return Made(path, size, manifest, shown, fault, key_place(config, home))


async def _make(
    home: Home, config: Config, path: Path, folder: Path, include_master_key: bool, force: bool
) -> tuple[Manifest, str | None]:
    """Collect the files of a backup in a folder, and write it; also what is wrong with its log."""
    files = {DATABASE: folder / DATABASE}
    anchors = AnchorFile(home.anchor_file).read()
    _put(read(home.anchor_file), folder / ANCHORS, files)
    _put(read(home.config_file), folder / CONFIG, files)
    key = KeyFile(_key_file(config, home)) if include_master_key else None
    kind, found = await _copy_database(config.database.url, files[DATABASE], anchors)
    if key is not None:
        _put(key.for_versions(found.credentials), folder / MASTER_KEY, files)
    manifest = Manifest(
        format=archive.FORMAT,
        agor=agor.__version__,
        created_at=now(),
        database=kind,
        schema=found.schema,
        namespace=found.namespace,
        audit_number=found.audit_number,
        audit_hash=found.audit_hash,
        credentials=sum(found.credentials.values()),
        members={name: archive.describe(file) for name, file in files.items()},
    )
    archive.write(path, manifest, files, folder=folder, force=force)
    return manifest, found.audit_fault


async def _copy_database(
    url: str, target: Path, anchors: list[Anchor]
) -> tuple[archive.DatabaseKind, Snapshot]:
    file = file_of(url)
    if file is not None:
        await sqlite_snapshot.copy(file, target)
        return "sqlite", await sqlite_snapshot.check(target, anchors)
    from agor.daemon.backup import postgres_snapshot

    return "postgresql", await postgres_snapshot.copy(url, target, anchors)


def key_place(config: Config, home: Home) -> str:
    """Tell where the master key of a home's credentials is."""
    credentials = config.credentials
    if credentials.master_key == "file":
        return str(home.path(credentials.key_file))
    if credentials.master_key == "environment":
        return "the environment variable AGOR_MASTER_KEY"
    return "the output of credentials.key_command"


def _key_file(config: Config, home: Home) -> Path:
    if config.credentials.master_key != "file":
        raise BackupFailed(
            f"the master key is not in a file: it is {key_place(config, home)}",
            hint="Keep a copy of it by hand, and leave out --include-master-key.",
        )
    return home.path(config.credentials.key_file)


def _put(data: bytes | None, target: Path, files: dict[str, Path]) -> None:
    """Write a file of a backup, if there is something for it."""
    if data is None:
        return
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
    files[target.name] = target


def _refuse_if_not_ours(home: Home) -> None:
    """Refuse a home that is not there, or is another user's: also root would leave files in it."""
    try:
        owner = home.folder.stat().st_uid
    except OSError as error:
        raise BackupFailed(
            f"there is no home {home.folder}: {error.strerror}",
            hint="Set AGOR_HOME to the folder of the daemon.",
        ) from error
    if owner != os.geteuid():
        raise BackupFailed(
            f"{home.folder} belongs to another user",
            hint="Run this as the user that the daemon runs as (sudo -u NAME agor backup …).",
        )

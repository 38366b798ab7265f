"""The file of a backup: a plain tar of a manifest and a few members with fixed names.

It is written in another folder and put in its place when it is complete and synced. Reading
believes nothing: names, sizes and checksums must be those of the manifest.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Literal

import msgspec
from msgspec import Struct

from agor import private
from agor.errors import BackupFailed

FORMAT = 1
MANIFEST = "manifest.json"
DATABASE, CONFIG, ANCHORS, MASTER_KEY = "database", "config.yaml", "audit.anchors", "master.key"
_MEMBERS = (DATABASE, CONFIG, ANCHORS, MASTER_KEY)
_MOST_MANIFEST = 64 * 1024
_CHUNK = 1024 * 1024


DatabaseKind = Literal["sqlite", "postgresql"]


class Member(Struct, frozen=True):
    """One file of a backup."""

    size: int
    sha256: str


class Manifest(Struct, frozen=True, kw_only=True):
    """What a backup says of itself."""

    format: int
    #: The version of agor that made it.
    agor: str
    #: Milliseconds since 1970.
    created_at: int
    database: DatabaseKind
    #: The revision of the database's schema.
    schema: str
    #: PostgreSQL: the schema that its tables were in.
    namespace: str | None = None
    #: Where the audit log ended.
    audit_number: int
    audit_hash: str
    #: How many credentials it has; the master key opens them.
    credentials: int
    members: dict[str, Member]


def describe(path: Path) -> Member:
    """Take the size and the checksum of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Member(file.tell(), digest)


def write(
    path: Path, manifest: Manifest, files: Mapping[str, Path], *, folder: Path, force: bool
) -> None:
    """Write a backup, readable by its owner only; nothing is at `path` before it is complete.

    It is written in `folder`, which is on the same file system.
    """
    fresh = folder / "backup.tar"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            encoded = msgspec.json.format(msgspec.json.encode(manifest)) + b"\n"
            tar.addfile(_header(MANIFEST, len(encoded), manifest), io.BytesIO(encoded))
            for member, source in files.items():
                with source.open("rb") as data:
                    tar.addfile(_header(member, manifest.members[member].size, manifest), data)
        file.flush()
        os.fsync(file.fileno())
    with opened(fresh) as archive:
        archive.verify()
    _publish(fresh, path, force=force)
    private.sync_folder(path.parent)


def refuse_to_replace(path: Path, *, force: bool) -> None:
    """Refuse a place that is taken; a folder always is."""
    if path.is_dir():
        raise BackupFailed(f"{path} is a folder", hint=f"Name a file: {path / 'agor-backup.tar'}")
    if os.path.lexists(path) and not force:
        raise BackupFailed(f"{path} is there already", hint="Name another file, or use --force.")
    if not path.parent.is_dir():
        raise BackupFailed(f"there is no folder {path.parent}", hint=f"mkdir -p {path.parent}")


def _header(name: str, size: int, manifest: Manifest) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o600, manifest.created_at // 1000
    return info


def _publish(fresh: Path, path: Path, *, force: bool) -> None:
    if force:
        fresh.replace(path)
        return
    try:
        # Unlike a rename, this never replaces a file that appeared meanwhile.
        path.hardlink_to(fresh)
    except FileExistsError:
        refuse_to_replace(path, force=False)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        # This file system has no links.
        refuse_to_replace(path, force=False)
        fresh.rename(path)


class Archive:
    """A backup that is open for reading."""

    def __init__(self, path: Path, tar: tarfile.TarFile) -> None:
        self._path = path
        self._tar = tar
        self.manifest = self._read_manifest()

    def verify(self) -> None:
        """Read all of it, and compare it with its manifest."""
        for name in self.manifest.members:
            self._copy(name, None)

    def extract(self, name: str, target: Path) -> None:
        """Write a member to a new file, synced; it must be what the manifest says."""
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                self._copy(name, file)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise BackupFailed(
                f"there is no space for what is in the backup, in {target.parent.parent}",
                hint="Nothing was changed. Free some space there.",
            ) from error

    def _copy(self, name: str, target: IO[bytes] | None) -> None:
        expected = self.manifest.members[name]
        try:
            source = self._tar.extractfile(name)
        except KeyError:
            raise self._damaged(f"{name} is missing") from None
        if source is None:
            raise self._damaged(f"{name} is no file")
        digest, size = hashlib.sha256(), 0
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            if target is not None:
                target.write(chunk)
        if (size, digest.hexdigest()) != (expected.size, expected.sha256):
            raise self._damaged(f"{name} is not what it was when the backup was made")

    def _read_manifest(self) -> Manifest:
        first = self._tar.next()
        if first is None or first.name != MANIFEST or first.size > _MOST_MANIFEST:
            raise self._damaged("it does not begin with a manifest")
        source = self._tar.extractfile(first)
        try:
            manifest = msgspec.json.decode(source.read() if source else b"", type=Manifest)
        except msgspec.DecodeError as error:
            raise self._damaged(f"its manifest cannot be read ({error})") from None
        if manifest.format != FORMAT:
            raise BackupFailed(
                f"{self._path} has format {manifest.format}; this version of agor reads {FORMAT}",
                hint=f"Restore it with agor {manifest.agor} or later.",
            )
        if DATABASE not in manifest.members or not set(manifest.members) <= set(_MEMBERS):
            raise self._damaged("its manifest names other files than a backup has")
        return manifest

    def _damaged(self, why: str) -> BackupFailed:
        return BackupFailed(
            f"{self._path} is not a backup of agor, or it is damaged: {why}",
            hint="Nothing was changed. Use another copy of it, or another backup.",
        )


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """Open a backup; what cannot be read raises `BackupFailed`."""
    try:
        with tarfile.open(path, "r:") as tar:
            yield Archive(path, tar)
    except tarfile.TarError as error:
        raise BackupFailed(
            f"{path} is not a backup of agor, or it is damaged: {error}",
            hint="Nothing was changed. Use another copy of it, or another backup.",
        ) from error
    except OSError as error:
        # Also of what is written meanwhile: a full disk, for example.
        raise BackupFailed(f"{error.filename or path}: {error.strerror}") from error

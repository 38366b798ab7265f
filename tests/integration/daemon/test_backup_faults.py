"""Backups and restores that are refused, fail or are killed: what was there is still there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agor import private
from agor.daemon.backup import archive, sqlite_snapshot
from agor.daemon.backup.archive import Manifest
from agor.daemon.backup.backup import make_backup
from agor.daemon.backup.pending import finish_pending, plan_file
from agor.daemon.backup.postgres_tools import Tools
from agor.daemon.backup.restore import Done, restore_backup
from agor.daemon.services.credentials.master_key import MasterKey, parse
from agor.daemon.store import credentials
from agor.daemon.store.rows import CredentialRow
from agor.errors import BackupFailed, StoreUnusable
from agor.home import Home
from tests.database import put_database

OLD, NEW = "old", "new"


def a_home(folder: Path, name: str, mark: str) -> Home:
    """A home whose database and anchors can be told from others."""
    home = Home(folder / name)
    home.prepare()
    put_database(home.folder)
    set_mark(home, mark)
    return home


def set_mark(home: Home, mark: str) -> None:
    connection = sqlite3.connect(home.folder / "agor.db")
    connection.execute("DELETE FROM receipts")
    connection.execute("INSERT INTO receipts VALUES ('mark', ?, '', 200, 0, '')", (mark,))
    connection.execute(
        "INSERT OR REPLACE INTO executors VALUES (?, 's', 'u', 'x', 0.0, '{}', NULL)", (mark,)
    )
    connection.commit()
    connection.close()


def marks(home: Home) -> list[str]:
    connection = sqlite3.connect(home.folder / "agor.db")
    try:
        return [key for (key,) in connection.execute("SELECT key FROM receipts")]
    finally:
        connection.close()


async def restored(home: Home, path: Path) -> Done:
    done = await restore_backup(home, path, lambda *_: True)
    assert done is not None
    return done


class Killed(BaseException):
    """As if the process had ended here."""


# ── making one ───────────────────────────────────────────────────────────────────────────────


async def test_a_file_that_is_there_is_replaced_only_by_force(folder: Path):
    home, path = a_home(folder, "home", NEW), folder / "b.tar"
    path.write_text("precious")
    with pytest.raises(BackupFailed, match="is there already"):
        await make_backup(home, path)
    assert path.read_text() == "precious"
    await make_backup(home, path, force=True)
    assert path.stat().st_mode & 0o777 == 0o600
    assert tarfile.is_tarfile(path)


async def test_a_backup_that_fails_leaves_nothing(folder: Path):
    home, place = a_home(folder, "home", NEW), folder / "place"
    place.mkdir()
    database = home.folder / "agor.db"
    data = bytearray(database.read_bytes())
    data[len(data) // 2 :] = os.urandom(len(data) - len(data) // 2)
    database.write_bytes(data)
    with pytest.raises(StoreUnusable):
        await make_backup(home, place / "b.tar")
    assert list(place.iterdir()) == []


@contextlib.contextmanager
def little_space(place: Path, size: str) -> Iterator[None]:
    """Have a folder in which little can be written."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount, and not every root")
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True, timeout=60)


@pytest.mark.parametrize("part", [0.5, 1.5], ids=["for the copy", "for the file"])
async def test_a_full_disk_is_named_and_it_is_not_that_of_the_database(folder: Path, part: float):
    home, place = a_home(folder, "home", NEW), folder / "place"
    size = (home.folder / "agor.db").stat().st_size
    place.mkdir()
    with little_space(place, f"{int(size * part / 1024)}k"):
        with pytest.raises(BackupFailed, match=f"cannot write the backup to {place}: No space"):
            await make_backup(home, place / "b.tar")
        assert list(place.iterdir()) == []


async def test_a_home_without_space_for_a_backup_is_named(folder: Path):
    home, place = a_home(folder, "home", NEW), folder / "place"
    path = folder / "b.tar"
    await make_backup(home, path)
    place.mkdir()
    with little_space(place, "128k"):
        other = Home(place / "h")
        with pytest.raises(BackupFailed, match=f"no space .* in {other.folder}"):
            await restored(other, path)
        assert not list(other.folder.glob(".*restore*"))


async def test_a_backup_that_is_interrupted_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    home, place = a_home(folder, "home", NEW), folder / "place"
    place.mkdir()
    reached = asyncio.Event()

    async def wait(*_: Any) -> None:
        reached.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(sqlite_snapshot, "check", wait)
    making = asyncio.create_task(make_backup(home, place / "b.tar"))
    await reached.wait()
    assert list(place.iterdir()) != []
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    assert list(place.iterdir()) == []


async def test_the_master_key_is_in_it_only_if_asked_for(folder: Path):
    home = a_home(folder, "home", NEW)
    key = home.folder / "master.key"
    key.touch(0o600)
    key.write_text("1:secret\n")
    made = await make_backup(home, folder / "without.tar")
    assert made.master_key == str(key)
    assert b"1:secret" not in (folder / "without.tar").read_bytes()
    await make_backup(home, folder / "with.tar", include_master_key=True)
    other = Home(folder / "other")
    await restored(other, folder / "with.tar")
    put = other.folder / "master.key"
    assert (put.read_text(), put.stat().st_mode & 0o777) == ("1:secret\n", 0o600)


# ── the master key, while it is rotated ──────────────────────────────────────────────────────

ONE, TWO = MasterKey.fresh(1), MasterKey.fresh(2)
BOTH = MasterKey({2: TWO.bytes_of(2), 1: ONE.bytes_of(1)})


def put_key(home: Home, key: MasterKey) -> None:
    private.write(home.folder / "master.key", key.spell().encode())


def put_credentials(home: Home, *versions: int) -> None:
    """Have one credential for each of these versions of the master key."""
    connection = sqlite3.connect(home.folder / "agor.db")
    for version in versions:
        row = CredentialRow(
            credential_id=f"c{version}",
            user_id="",
            name=f"KEY_{version}",
            base_url=None,
            last_four="1234",
            set_by="u",
            key_version=version,
            created_at=0,
            updated_at=0,
            last_used_at=None,
            agents=None,
            sealed=b"sealed",
        )
        statement = credentials.put(row)
        connection.execute(statement.sql, statement.values)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("before", "used", "after", "kept"),
    [
        (ONE, [1], ONE, ONE),
        # It begins while the database is copied.
        (ONE, [1, 2], BOTH, BOTH),
        # It ends while the database is copied.
        (BOTH, [1, 2], TWO, BOTH),
        # It begins before, and ends after: neither file has both.
        (ONE, [1, 2], TWO, BOTH),
        (ONE, [2], TWO, BOTH),
        # Nothing is sealed.
        (ONE, [], TWO, ONE),
    ],
)
async def test_a_master_key_that_is_rotated_meanwhile_opens_all_of_the_backup(
    folder: Path,
    before: MasterKey,
    used: list[int],
    after: MasterKey,
    kept: MasterKey,
    monkeypatch: pytest.MonkeyPatch,
):
    home, path = a_home(folder, "home", NEW), folder / "b.tar"
    put_key(home, before)
    copy = sqlite_snapshot.copy

    async def rotating(source: Path, target: Path) -> None:
        put_credentials(home, *used)
        await copy(source, target)
        put_key(home, after)

    monkeypatch.setattr(sqlite_snapshot, "copy", rotating)
    await make_backup(home, path, include_master_key=True)
    other = Home(folder / "other")
    await restored(other, path)
    found = parse((other.folder / "master.key").read_text(), "the file")
    assert found.spell() == kept.spell()


@pytest.mark.parametrize("there", [True, False])
async def test_a_master_key_that_does_not_open_all_of_the_backup_is_refused(
    folder: Path, there: bool
):
    home, path = a_home(folder, "home", NEW), folder / "b.tar"
    if there:
        put_key(home, TWO)
    put_credentials(home, 1)
    with pytest.raises(BackupFailed, match=r"version 1 of the master key, and .*master\.key") as no:
        await make_backup(home, path, include_master_key=True)
    assert "--include-master-key" in (no.value.hint or "")
    assert not path.exists()
    await make_backup(home, path)


# ── refusing one ─────────────────────────────────────────────────────────────────────────────


async def test_only_the_owner_of_a_home_can_back_it_up(folder: Path):
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    home = a_home(folder, "home", NEW)
    os.chown(home.folder, 12345, 12345)
    with pytest.raises(BackupFailed, match="another user"):
        await make_backup(home, folder / "b.tar")


async def test_a_damaged_backup_is_refused_and_nothing_changes(folder: Path):
    home, path = a_home(folder, "home", NEW), folder / "b.tar"
    await make_backup(home, path)
    set_mark(home, OLD)
    before = sorted(home.folder.iterdir())
    good = path.read_bytes()
    for damage in (good[: len(good) // 2], good.replace(b"new", b"odd"), b"", os.urandom(5000)):
        path.write_bytes(damage)
        with pytest.raises(BackupFailed):
            await restored(home, path)
        assert marks(home) == [OLD]
        assert sorted(home.folder.iterdir()) == before


async def test_a_backup_of_a_newer_agor_is_refused(folder: Path):
    home, path = a_home(folder, "home", NEW), folder / "b.tar"
    made = await make_backup(home, path)
    for changes, words in (({"schema": "9999"}, "schema 9999"), ({"format": 99}, "format 99")):
        manifest = msgspec.structs.replace(made.manifest, **changes)
        put_manifest(path, folder / "newer.tar", manifest)
        with pytest.raises((BackupFailed, StoreUnusable), match=words):
            await restored(home, folder / "newer.tar")
    assert marks(home) == [NEW]


def put_manifest(source: Path, target: Path, manifest: Manifest) -> None:
    folder = target.with_suffix(".d")
    folder.mkdir(exist_ok=True)
    with tarfile.open(source) as tar:
        # The first releases of Python 3.11 know no filters, and later ones warn without one.
        known: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(folder, **known)
    encoded = folder / archive.MANIFEST
    encoded.write_bytes(msgspec.json.encode(manifest))
    with tarfile.open(target, "w") as tar:
        for name in (archive.MANIFEST, *manifest.members):
            tar.add(folder / name, name)


async def test_the_kind_of_database_must_be_the_same(folder: Path):
    home, path = a_home(folder, "home", NEW), folder / "b.tar"
    await make_backup(home, path)
    other = Home(folder / "other")
    other.prepare()
    other.config_file.write_text("database: {url: 'postgresql://agor@nowhere/agor'}\n")
    with pytest.raises(BackupFailed, match="of the kind sqlite"):
        await restored(other, path)


async def test_who_says_no_changes_nothing(folder: Path):
    home, path = a_home(folder, "home", NEW), folder / "b.tar"
    await make_backup(home, path)
    set_mark(home, OLD)
    assert await restore_backup(home, path, lambda *_: False) is None
    assert marks(home) == [OLD]
    assert not list(home.folder.glob("*restore*"))
    assert not list(home.folder.glob(".*restore*"))


# ── killed in the middle ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("step", range(8))
async def test_a_restore_that_is_killed_is_finished_by_who_comes_next(
    folder: Path, step: int, monkeypatch: pytest.MonkeyPatch
):
    home, path = a_home(folder, "home", NEW), folder / "b.tar"
    home.anchor_file.write_text("")
    await make_backup(home, path)
    set_mark(home, OLD)
    home.anchor_file.write_text(f"1 {'0' * 64} 2026-01-01T00:00:00.000Z\n")
    (home.folder / "agor.db-wal").touch()
    done, rename = 0, Path.rename

    def dying(self: Path, target: Path) -> Path:
        nonlocal done
        if done == step:
            raise Killed
        done += 1
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", dying)
    killed = False
    try:
        await restored(home, path)
    except Killed:
        killed = True
    monkeypatch.setattr(Path, "rename", rename)
    assert killed == plan_file(home).exists()
    if killed:
        with pytest.raises(BackupFailed, match="interrupted"):
            await make_backup(home, folder / "other.tar")
    with home.lock():
        assert await finish_pending(home) == killed
    assert marks(home) == [NEW]
    assert home.anchor_file.read_text() == ""
    [aside] = home.folder.glob("before-restore-*")
    assert marks(Home(aside)) == [OLD]
    assert (aside / "audit.anchors").read_text().startswith("1 ")
    assert not list(home.folder.glob(".*restore*"))


async def test_a_restore_that_is_killed_before_its_plan_is_written_has_changed_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    home, path = a_home(folder, "home", NEW), folder / "b.tar"
    await make_backup(home, path)
    set_mark(home, OLD)

    def die(*_: Any) -> None:
        raise Killed

    monkeypatch.setattr(private, "write", die)
    with pytest.raises(Killed):
        await restored(home, path)
    assert marks(home) == [OLD]
    with home.lock():
        assert not await finish_pending(home)


async def test_executors_of_the_time_of_the_backup_are_forgotten(folder: Path):
    home, path = a_home(folder, "home", NEW), folder / "b.tar"
    await make_backup(home, path)
    await restored(home, path)
    connection = sqlite3.connect(home.folder / "agor.db")
    assert connection.execute("SELECT * FROM executors").fetchall() == []
    connection.close()


# ── PostgreSQL's programs ────────────────────────────────────────────────────────────────────


async def test_programs_that_are_too_old_are_refused_with_what_to_install():
    with pytest.raises(BackupFailed, match="PostgreSQL 999") as refused:
        await Tools.find(999)
    assert "postgresql-client-999" in (refused.value.hint or "")

"""Backups whose process is ended from outside: no copy of a database or of a key stays behind."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agor.daemon.backup import sqlite_snapshot
from agor.daemon.backup.backup import make_backup
from agor.daemon.backup.working_folder import working_folder
from agor.daemon.store.base import Reads
from agor.home import Home
from tests.contract.waiting import PATIENCE, until
from tests.database import put_database
from tests.integration.daemon.backup_site import Site, empty_database
from tests.store.postgres_server import PostgresServer, binaries

AGOR = Path(sys.executable).parent / "agor"
ENDS = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]


@contextlib.asynccontextmanager
async def backing_up(
    home: Home, place: Path, env: dict[str, str] | None = None, *, before: tuple[str, ...] = ()
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `agor backup`; it is killed in the end, unless it has ended."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AGOR_")}
    process = await asyncio.create_subprocess_exec(
        *(*before, str(AGOR), "backup", str(place / "b.tar")),
        env=clean | {"AGOR_HOME": str(home.folder)} | (env or {}),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def end_of(process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(PATIENCE):
        return await process.wait()


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ── of a file ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def home(folder: Path) -> Home:
    made = Home(folder / "home")
    made.prepare()
    put_database(made.folder)
    # So that a writer keeps readers out, which holds up backups.
    connection = sqlite3.connect(made.folder / "agor.db")
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    return made


@pytest.fixture
def place(folder: Path) -> Path:
    made = folder / "place"
    made.mkdir()
    return made


@pytest.fixture
def held_up(home: Home) -> Iterator[Callable[[], None]]:
    """Keep backups of the home from going on, until this is called."""
    connection = sqlite3.connect(home.folder / "agor.db", isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    yield connection.close
    connection.close()


async def test_a_backup_whose_terminal_is_closed_leaves_nothing(
    home: Home, place: Path, held_up: Callable[[], None]
):
    async with backing_up(home, place) as process:
        await until(lambda: list(place.glob("*/database")))
        process.send_signal(signal.SIGHUP)
        # Twice, as from a terminal: the first is enough, and the second does no harm.
        process.send_signal(signal.SIGHUP)
        assert await end_of(process) == 130
        assert left_in(place) == []


async def test_a_statement_of_a_backup_that_is_cancelled_does_not_go_on(
    home: Home, place: Path, monkeypatch: pytest.MonkeyPatch
):
    begun = asyncio.Event()

    async def look_for_ever(database: Reads, *_: Any) -> None:
        begun.set()
        await database.read(
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
        )

    monkeypatch.setattr(sqlite_snapshot, "look", look_for_ever)
    making = asyncio.create_task(make_backup(home, place / "b.tar"))
    await begun.wait()
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    assert left_in(place) == []


async def test_a_backup_goes_on_without_its_terminal_if_nohup_says_so(
    home: Home, place: Path, held_up: Callable[[], None]
):
    async with backing_up(home, place, before=("nohup",)) as process:
        await until(lambda: list(place.glob("*/database")))
        process.send_signal(signal.SIGHUP)
        held_up()
        assert await end_of(process) == 0
        assert left_in(place) == ["b.tar"]


async def test_the_next_backup_removes_what_a_killed_one_left(
    home: Home, place: Path, held_up: Callable[[], None]
):
    async with backing_up(home, place) as process:
        await until(lambda: list(place.glob("*/database")))
        process.kill()
        assert await end_of(process) == -signal.SIGKILL
    [left] = place.iterdir()
    held_up()
    (left / "database").write_bytes(b"a copy")
    await make_backup(home, place / "b.tar")
    assert left_in(place) == ["b.tar"]


async def test_a_backup_leaves_alone_what_another_one_works_in(
    home: Home, place: Path, held_up: Callable[[], None], folder: Path
):
    other = Home(folder / "other")
    other.prepare()
    put_database(other.folder)
    async with backing_up(home, place) as process:
        await until(lambda: list(place.glob("*/database")))
        working = left_in(place)
        await make_backup(other, place / "other.tar")
        assert left_in(place) == sorted([*working, "other.tar"])
        held_up()
        assert await end_of(process) == 0
    assert left_in(place) == ["b.tar", "other.tar"]


async def test_a_file_system_without_locks_can_have_backups(
    home: Home, place: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with working_folder(place, ".agor-backup-") as another, monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", refuse)
        await make_backup(home, place / "b.tar")
        # It may be in use: that cannot be told.
        assert left_in(place) == sorted([another.name, "b.tar"])


async def test_a_folder_that_is_made_is_not_taken_for_abandoned(
    place: Path, monkeypatch: pytest.MonkeyPatch
):
    make, attempts = tempfile.mkdtemp, 0

    def removed_at_once(**options: Any) -> str:
        nonlocal attempts
        attempts += 1
        made: str = make(**options)
        if attempts == 1:
            shutil.rmtree(made)
        if attempts == 2:
            with working_folder(place, ".x-"):
                pass
        return made

    monkeypatch.setattr(tempfile, "mkdtemp", removed_at_once)
    with working_folder(place, ".x-") as folder:
        assert folder.is_dir()
    assert left_in(place) == []


# ── of a server ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def site(postgres: PostgresServer, folder: Path) -> Site:
    url = await empty_database(postgres)
    made = Site(url.replace("agor@", "agor:s3cret@"), folder)
    await made.prepare()
    return made


@pytest.fixture
def slow_programs(folder: Path) -> Iterator[Path]:
    """PostgreSQL's programs, of which `pg_dump` writes its number to a file and waits for ever."""
    found = binaries()
    assert found is not None
    programs = folder / "programs"
    programs.mkdir()
    for name in ("pg_restore", "psql"):
        (programs / name).symlink_to(found / name)
    started = programs / "started"
    (programs / "pg_dump").write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec "{found}/pg_dump" --version\n'
        f'echo $$ > "{started}.new" && mv "{started}.new" "{started}" && exec sleep 1000\n'
    )
    (programs / "pg_dump").chmod(0o755)
    yield programs
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int(started.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("number", [*ENDS, signal.SIGKILL])
async def test_neither_a_copy_nor_a_password_of_an_interrupted_backup_stays(
    site: Site, folder: Path, place: Path, slow_programs: Path, number: signal.Signals
):
    temporary = folder / "temporary"
    temporary.mkdir()
    path = f"{slow_programs}:{os.environ['PATH']}"
    env = {"PATH": path, "TMPDIR": str(temporary)}
    async with backing_up(site.home, place, env) as process:
        await until((slow_programs / "started").exists)
        assert list(temporary.glob("*/pgpass"))
        assert list(place.iterdir())
        process.send_signal(number)
        code = await end_of(process)
    if number == signal.SIGKILL:
        assert code == -signal.SIGKILL
        async with backing_up(site.home, place, {"TMPDIR": str(temporary)}) as process:
            assert await end_of(process) == 0
        assert left_in(place) == ["b.tar"]
    else:
        assert code == 130
        assert left_in(place) == []
    assert left_in(temporary) == []

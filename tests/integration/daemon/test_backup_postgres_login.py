"""How backups log in to PostgreSQL: with every URL that the daemon takes, and no secret shown."""

from __future__ import annotations

import asyncio
import getpass
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import quote, unquote_plus

import asyncpg  # type: ignore[import-untyped]
import pytest

from agor.config.editing import set_value
from agor.daemon.backup.backup import make_backup
from agor.errors import BackupFailed
from tests.integration.daemon.backup_site import Site, empty_database
from tests.store.postgres_server import PostgresServer, binaries

#: Has what means something in URLs, in files of passwords, and in connection strings.
PASSWORD = "s3cret: \\#/?@'ü"
WRITTEN = quote(PASSWORD, safe="")
PROGRAMS = ("pg_dump", "pg_restore", "psql")
#: No server of this machine uses it.
ODD_PORT = 20_000 + os.getpid() % 40_000


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A server that asks `ann` for a password, and nobody else."""
    found = binaries()
    if found is None:
        pytest.skip("no PostgreSQL here (no initdb)")
    server = PostgresServer(found)
    try:
        server.create()
        asyncio.run(_add_people(server))
        rules = server.data / "pg_hba.conf"
        rules.write_text(f"local all ann scram-sha-256\n{rules.read_text()}")
        server.stop()
        server.start()
        yield server
    finally:
        server.remove()


async def _add_people(server: PostgresServer) -> None:
    connection = await asyncpg.connect(server.url("postgres"))
    try:
        written = PASSWORD.replace("'", "''")
        await connection.execute(f"CREATE ROLE ann LOGIN SUPERUSER PASSWORD '{written}'")
        if getpass.getuser() != "agor":
            await connection.execute(f'CREATE ROLE "{getpass.getuser()}" LOGIN SUPERUSER')
    finally:
        await connection.close()


@pytest.fixture
async def socket(postgres: PostgresServer) -> str:
    """The folder of the server's socket; its database is empty, and has schemas to choose from."""
    url = await empty_database(postgres)
    connection = await asyncpg.connect(url)
    try:
        for name in ("tenant", '"my tenant"'):
            await connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}")
    finally:
        await connection.close()
    return url.partition("host=")[2]


@pytest.fixture
async def port(socket: str) -> AsyncIterator[int]:
    """A TCP port of the server."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_unix_connection(f"{socket}/.s.PGSQL.5432")
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer), return_exceptions=True)

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


@pytest.fixture
def default_socket(socket: str) -> Iterator[None]:
    """Have the server where one is looked for that no URL says the place of."""
    link = Path("/tmp", f".s.PGSQL.{ODD_PORT}")
    link.unlink(missing_ok=True)
    link.symlink_to(f"{socket}/.s.PGSQL.5432")
    yield
    link.unlink()


@pytest.mark.parametrize(
    "written",
    [
        # Those that docs/reference/configuration.md has.
        "postgresql://ann:{password}@127.0.0.1:{port}/postgres",
        "postgresql:///postgres?host={socket}",
        # Others that the driver takes.
        "postgresql:///postgres?host={socket}&user=ann&password={password}",
        "postgresql://agor@{quoted}/postgres",
        "postgresql://agor@?host={socket}&database=postgres",
        "postgresql://agor@/postgres?host={socket}&user=nobody&dbname=template1",
        "postgresql://agor@127.0.0.1:{port}/postgres?host=/nowhere&port=1&sslmode=prefer",
        "postgresql://agor@/postgres?port={odd_port}",
        # With settings of the server.
        "postgresql://agor@/postgres?host={socket}&application_name=my%20app",
        "postgresql://agor@/postgres?host={socket}&options=-c%20search_path%3Dtenant",
        "postgresql://agor@/postgres?host={socket}&search_path=tenant,%20public",
        "postgresql://agor@/postgres?host={socket}&search_path=%22my+tenant%22",
        "postgresql://agor@/postgres?host={socket}&search_path=tenant&options=-c%20jit%3Don",
    ],
)
@pytest.mark.usefixtures("default_socket")
async def test_a_url_that_the_daemon_takes_is_taken_by_backups_and_restores(
    socket: str, port: int, folder: Path, written: str
):
    url = written.format(
        socket=socket, quoted=quote(socket, safe=""), port=port, odd_port=ODD_PORT, password=WRITTEN
    )
    site = Site(url, folder)
    await site.prepare()
    named = [name for name in ("my tenant", "tenant") if name in unquote_plus(written)]
    namespace = named[0] if named else "public"
    assert await site.ask("SELECT current_schema()::text") == [namespace]
    await site.restore()
    assert await site.ask("SELECT scope FROM receipts") == ["backed up"]
    assert await site.ask("SELECT current_schema()::text") == [namespace]
    assert len(await site.asides()) == 1


@pytest.fixture
def recorded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have PostgreSQL's programs write down their arguments and environments in this folder."""
    records, programs = folder / "records", folder / "programs"
    records.mkdir()
    programs.mkdir()
    found = binaries()
    assert found is not None
    for name in PROGRAMS:
        program = programs / name
        program.write_text(
            "#!/bin/sh\n"
            f'cat /proc/$$/cmdline > "{records}/{name}.$$.arguments"\n'
            f'cat /proc/$$/environ > "{records}/{name}.$$.environment"\n'
            f'exec "{found / name}" "$@"\n'
        )
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    assert Path(shutil.which("psql") or "").parent == programs
    return records


@pytest.mark.parametrize(
    "written",
    [
        "postgresql://ann:{password}@/postgres?host={socket}",
        "postgresql://ann@/postgres?host={socket}&password={password}",
        "postgresql://ann:{password}@/postgres?host={socket}&password=an0ther",
        # The password is in the variable PGPASSWORD.
        "postgresql://ann@/postgres?host={socket}",
        # The driver looks at the variable first.
        "postgresql://ann@/postgres?host={socket}&passfile=/nowhere",
    ],
)
async def test_no_program_has_a_secret_in_its_arguments_or_its_environment(
    socket: str, folder: Path, recorded: Path, written: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AGOR_MASTER_KEY", "1:m4ster")
    monkeypatch.setenv("PG_BACKUP_TOKEN", "t0ken")
    monkeypatch.setenv("PGPASSWORD", "an0ther" if "{password}" in written else PASSWORD)
    site = Site(written.format(socket=socket, password=WRITTEN), folder)
    await site.prepare()
    await site.restore()
    kept = {path.name: path.read_bytes() for path in recorded.iterdir()}
    assert {name.partition(".")[0] for name in kept} == set(PROGRAMS)
    for secret in (PASSWORD, WRITTEN, "s3cret", "m4ster", "t0ken", "an0ther"):
        assert [name for name, data in kept.items() if secret.encode() in data] == []


async def test_a_password_of_a_key_is_refused_since_it_would_be_an_argument(
    socket: str, folder: Path, recorded: Path
):
    site = Site(f"postgresql://agor@/postgres?host={socket}", folder)
    await site.prepare()
    for path in recorded.iterdir():
        path.unlink()
    set_value(site.home, "database.url", f"{site.url}&sslpassword=s3cret")
    for work in (make_backup(site.home, folder / "other.tar"), site.restore()):
        with pytest.raises(BackupFailed, match="sslpassword") as refused:
            await work
        assert "s3cret" not in str(refused.value) + (refused.value.hint or "")
    assert not any(b"s3cret" in path.read_bytes() for path in recorded.iterdir())
    assert await site.ask("SELECT scope FROM receipts") == ["since"]
    assert not list(site.home.folder.glob("*restore*"))


async def test_a_password_that_no_file_can_hold_is_refused(socket: str, folder: Path):
    site = Site(f"postgresql://agor@/postgres?host={socket}", folder)
    await site.prepare()
    set_value(site.home, "database.url", f"{site.url}&password=s3cret%0Ahere")
    with pytest.raises(BackupFailed, match="line break") as refused:
        await make_backup(site.home, folder / "other.tar")
    assert "s3cret" not in str(refused.value)


async def test_a_temporary_folder_that_cannot_be_written_is_named(
    socket: str, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    site = Site(f"postgresql://ann:{WRITTEN}@/postgres?host={socket}", folder)
    await site.prepare()
    missing = folder / "missing"
    monkeypatch.setattr(tempfile, "tempdir", str(missing))
    with pytest.raises(BackupFailed, match=f"cannot write to {missing}: No such file"):
        await make_backup(site.home, folder / "other.tar")

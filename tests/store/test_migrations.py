"""The schema, and how a database gets to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from agor.daemon.store import connect, migrate, permissions, sessions
from agor.daemon.store.base import Statement, Store
from agor.daemon.store.postgres.connection import connect as connect_to_postgres
from agor.daemon.store.schema import metadata
from agor.daemon.store.shares import Circle
from agor.errors import StoreUnusable
from tests.store.examples import a_session, put, sequences, some_events


def differences(connection: Connection) -> list[object]:
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    return list(compare_metadata(context, metadata))


async def test_the_migrations_arrive_at_the_schema(store: Store, url: str):
    if url.startswith("sqlite"):
        engine = create_engine(url, poolclass=NullPool)
        with engine.connect() as connection:
            found = differences(connection)
    else:
        asynchronous = create_async_engine(
            "postgresql+asyncpg://", async_creator=lambda: connect_to_postgres(url),
            poolclass=NullPool,
        )  # fmt: skip
        async with asynchronous.connect() as connected:
            found = await connected.run_sync(differences)
    assert found == []


def test_the_program_is_written_for_the_last_migration():
    config = Config()
    config.set_main_option("script_location", str(migrate._SCRIPTS))
    assert ScriptDirectory.from_config(config).get_heads() == [migrate.HEAD]


async def test_a_database_of_a_newer_program_is_refused_and_left_alone(store: Store, url: str):
    await store.commit(some_events(1, 1, 3))
    await put(store, Statement("UPDATE alembic_version SET version_num = ?", ("9999",)))
    await store.close()
    again = connect(url)
    with pytest.raises(StoreUnusable, match="schema 9999") as refused:
        await again.open()
    assert "newer" in (refused.value.hint or "")
    with pytest.raises(StoreUnusable):
        await connect(url).open()


async def test_a_database_of_another_program_is_refused_and_left_alone(url: str):
    store = connect(url)
    await store.open()
    await put(store, Statement("CREATE TABLE theirs (x BIGINT)"))
    await put(store, Statement("DROP TABLE alembic_version"))
    await store.close()
    with pytest.raises(StoreUnusable, match="another program"):
        await connect(url).open()


async def test_an_interrupted_first_migration_is_done_again(url: str):
    """The version table alone, without a revision, is what Alembic leaves if it is killed."""
    store = connect(url)
    await store.open()
    tables = [table.name for table in metadata.sorted_tables]
    await put(
        store,
        *(Statement(f"DROP TABLE {name}") for name in tables if name != "last_commit"),
        Statement("DELETE FROM alembic_version"),
    )
    await put(store, Statement("DROP TABLE last_commit"))
    await store.close()
    await store.open()
    await store.commit(some_events(1, 1, 3))
    assert await sequences(store, 1) == [1, 2, 3]
    await store.close()


async def test_what_lists_need_is_filled_in_for_what_was_there_before(
    url: str, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as before:
        before.setattr(migrate, "HEAD", "0004")
        store = connect(url)
        await store.open()
        await put(
            store,
            sessions.insert(a_session("s", user_id="bob", created_at=7)),
            Statement("INSERT INTO shares VALUES ('s', 'ann', 'view', 'bob', 9)"),
            Statement("INSERT INTO shares VALUES ('gone', 'ann', 'view', 'bob', 9)"),
            Statement(
                "INSERT INTO permission_requests (permission_id, session_id, task_id, request_id,"
                " tool_name, status, created_at, expires_at, tool_input)"
                " VALUES ('p', 's', 't', 'r', 'Bash', 'pending', 8, 9, '{}')"
            ),
        )
        await store.close()
    store = connect(url)
    await store.open()
    for whose in (Circle("bob"), Circle("ann")):
        assert [row.session_id for row in await sessions.page(store, whose, None, None, 9)] == ["s"]
        found = await permissions.page(store, whose, None, None, 9)
        assert [row.permission_id for row in found] == ["p"]
    assert (await sessions.page(store, Circle("ann"), None, (7, "s"), 9)) == []
    await store.close()


async def test_opening_a_database_that_is_up_to_date_needs_no_alembic(tmp_path: Path):
    """It is slow to import, and almost every start finds nothing to do."""
    url = f"sqlite:///{tmp_path}/agor.db"
    store = connect(url)
    await store.open()
    await store.close()
    program = (
        "import asyncio, sys\n"
        "from agor.daemon.store import connect\n"
        "from agor.daemon.store import sessions, tasks, events, messages, permissions\n"
        "store = connect(sys.argv[1])\n"
        "asyncio.run(store.open())\n"
        "print('alembic' in sys.modules, 'sqlalchemy' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, url], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["False", "False"]

"""The connection that writes: how it is made, that it is the only one, and the schema behind it.

A session's advisory lock keeps a second daemon out. It is let go when its connection has ended on
the server, and not before its last transaction has: who has got the lock anew can be certain that
nothing comes after of what was sent on the connection before.
"""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from agor.daemon.store.migrate import VERSION_TABLE, needs_upgrade, upgrade
from agor.errors import StoreUnusable

Connection = Any

#: "agor", as a number: the name of the lock.
_LOCK = 0x61676F72
_CONNECT_SECONDS = 10.0
#: A statement that takes longer has a server that is not there any more.
COMMAND_SECONDS = 30.0
#: How often, and for how long, the lock is asked for: a connection that broke takes its time.
_LOCK_TRIES, _LOCK_PAUSE = 20, 0.1

#: Ends our own connection that broke, if the server has not noticed; nobody else's.
_END_PREDECESSOR = """
SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE locktype = 'advisory' AND granted AND pid = $1 AND objid = $2
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
#: Durable means synced, also where the server's default is less; more than that stays.
_SYNCED = """
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off'
"""


async def connect(
    url: str, *, command_seconds: float | None = COMMAND_SECONDS, **settings: str
) -> Connection:
    """Connect to the server."""
    return await asyncpg.connect(
        url,
        timeout=_CONNECT_SECONDS,
        command_timeout=command_seconds,
        server_settings={"application_name": "agor", "jit": "off", **settings},
    )


async def connect_alone(url: str, predecessor: int | None = None) -> Connection:
    """Connect to write, and take the lock; `predecessor` is the process of our last connection."""
    connection = await connect(url)
    try:
        await connection.execute(_SYNCED)
        if predecessor is not None:
            await connection.execute(_END_PREDECESSOR, predecessor, _LOCK)
        await _lock(connection)
    except BaseException:
        connection.terminate()
        raise
    return connection


async def _lock(connection: Connection) -> None:
    for _ in range(_LOCK_TRIES):
        if await connection.fetchval("SELECT pg_try_advisory_lock($1)", _LOCK):
            return
        await asyncio.sleep(_LOCK_PAUSE)
    raise StoreUnusable(
        "another daemon uses this PostgreSQL database",
        hint="Stop it, or give this one a database of its own (database.url).",
    )


async def prepare(connection: Connection, url: str) -> None:
    """Bring the schema up to date; the connection has the lock."""
    tables = {
        row["tablename"]
        for row in await connection.fetch(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        )
    }
    revision = None
    if VERSION_TABLE in tables:
        revision = await connection.fetchval(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608
    if needs_upgrade(tables, revision):
        await _upgrade(url)


async def last_commit(connection: Connection) -> int:
    """Read the number of the last commit, and see that there can be another one."""
    number = await connection.fetchval(
        "UPDATE last_commit SET number = number WHERE one = 1 RETURNING number"
    )
    if number is None:
        raise StoreUnusable(
            "the table last_commit is empty: the database was changed by hand",
            hint="INSERT INTO last_commit (one, number) VALUES (1, 0)",
        )
    return int(number)


async def _upgrade(url: str) -> None:
    from sqlalchemy.ext.asyncio import create_async_engine
    from sqlalchemy.pool import NullPool

    # A large table takes the time it takes.
    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: connect(url, command_seconds=None),
        poolclass=NullPool,
    )
    async with engine.begin() as begun:
        await begun.run_sync(upgrade)
    await engine.dispose()

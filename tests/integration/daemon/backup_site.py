"""A home on a PostgreSQL database, its backup, and what is in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from agor.config.editing import set_value
from agor.daemon.backup.backup import make_backup
from agor.daemon.backup.restore import restore_backup
from agor.daemon.store import connect
from agor.home import Home
from tests.store.postgres_server import PostgresServer

MARK = "SELECT scope FROM {schema}.receipts"
_ASIDES = "SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'agor_before_restore_%'"


async def empty_database(server: PostgresServer) -> str:
    """Make the database empty, without what earlier restores moved aside."""
    url = await server.empty_database()
    connection = await asyncpg.connect(url)
    try:
        for (name,) in await connection.fetch(_ASIDES):
            await connection.execute(f'DROP SCHEMA "{name}" CASCADE')
    finally:
        await connection.close()
    return url


class Site:
    """A home on a database, its backup, and what is in them."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.home = Home(folder / "home")
        self.backup = folder / "b.tar"

    async def prepare(self) -> None:
        """Back up a database marked `backed up`, and mark it `since` afterwards."""
        self.home.prepare()
        set_value(self.home, "database.url", self.url)
        store = connect(self.url)
        await store.open()
        await store.close()
        await self.mark("backed up")
        await make_backup(self.home, self.backup)
        await self.mark("since")

    async def mark(self, word: str) -> None:
        await self.ask("DELETE FROM receipts")
        await self.ask("INSERT INTO receipts VALUES ($1, '', '', 200, 0, '')", word)

    async def ask(self, sql: str, *values: Any) -> list[Any]:
        connection = await asyncpg.connect(self.url)
        try:
            return [row[0] for row in await connection.fetch(sql, *values)]
        finally:
            await connection.close()

    async def asides(self) -> list[str]:
        return await self.ask(_ASIDES)

    async def restore(self) -> None:
        assert await restore_backup(self.home, self.backup, lambda *_: True) is not None

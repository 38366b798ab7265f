"""Copying a PostgreSQL database while a daemon writes to it: `pg_dump` of one exported snapshot.

What the manifest says of the database, and the verification of its audit log, are of that snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agor.daemon.backup.postgres_tools import Tools, login
from agor.daemon.backup.snapshot import Snapshot, look
from agor.daemon.services.audit.anchors import Anchor
from agor.daemon.store.base import Row
from agor.daemon.store.migrate import VERSION_TABLE, needs_upgrade
from agor.daemon.store.postgres import faults
from agor.daemon.store.postgres.connection import connect
from agor.daemon.store.postgres.sql import translate
from agor.errors import AgorError, StoreUnusable


async def copy(url: str, target: Path, anchors: Sequence[Anchor]) -> Snapshot:
    """Dump a database to a new file in PostgreSQL's custom format."""
    try:
        connection = await connect(url, command_seconds=None)
    except Exception as error:
        raise faults.unusable(error) from error
    try:
        tools = await Tools.find(connection.get_server_version().major)
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            snapshot = await connection.fetchval("SELECT pg_export_snapshot()")
            namespace, schema = await _used(connection)
            await _dump(tools, url, snapshot, namespace, target)
            await tools.run("pg_restore", "--file=/dev/null", str(target))
            return await look(_Inside(connection), schema, anchors, namespace)
    except AgorError:
        raise
    except Exception as error:
        raise faults.unusable(error) from error
    finally:
        await connection.close()


async def _used(connection: Any) -> tuple[str, str]:
    namespace, schema = await state_of(connection)
    if schema is None:
        raise StoreUnusable("the database is empty: no daemon has used it yet")
    return namespace, schema


async def state_of(connection: Any) -> tuple[str, str | None]:
    """Tell which schema a database's tables are in, and their revision; refuse others' tables."""
    namespace = await connection.fetchval("SELECT current_schema()")
    tables = {
        row["tablename"]
        for row in await connection.fetch(
            "SELECT tablename FROM pg_tables WHERE schemaname = $1", namespace
        )
    }
    revision = None
    if VERSION_TABLE in tables:
        revision = await connection.fetchval(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608
    needs_upgrade(tables, revision)
    return namespace, revision


async def _dump(tools: Tools, url: str, snapshot: str, namespace: str, target: Path) -> None:
    target.touch(0o600)
    with login(url) as bare:
        await tools.run(
            "pg_dump",
            "--format=custom",
            "--no-owner",
            "--no-privileges",
            "--no-password",
            f"--snapshot={snapshot}",
            f'--schema="{namespace}"',
            f"--file={target}",
            f"--dbname={bare}",
        )


class _Inside:
    """Asks inside of a transaction that is open."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def read(self, sql: str, values: Row = ()) -> list[Row]:
        """Ask one question."""
        return [tuple(row) for row in await self._connection.fetch(translate(sql), *values)]

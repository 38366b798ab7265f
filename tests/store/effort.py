"""How much work a question makes for a database: deterministic, unlike the time it takes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any

from agor.daemon.store.base import Row
from agor.daemon.store.connect import file_of
from agor.daemon.store.postgres.connection import connect as connect_to_postgres
from agor.daemon.store.postgres.sql import translate


async def effort(url: str, ask: Callable[[Any], Awaitable[object]]) -> int:
    """Add up the work of all questions that `ask` puts to the store it is given."""
    weigh = _Steps(url) if url.startswith("sqlite") else _RowsVisited(url)
    await ask(weigh)
    return weigh.total


class _Steps:
    """The instructions that SQLite's virtual machine executes, in tens."""

    def __init__(self, url: str) -> None:
        path = file_of(url)
        assert path is not None
        self.total = 0
        self._connection = sqlite3.connect(path)
        self._connection.set_progress_handler(self._count, 10)

    def _count(self) -> int:
        self.total += 1
        return 0

    async def read(self, sql: str, values: Row = ()) -> list[Row]:
        return self._connection.execute(sql, values).fetchall()


class _RowsVisited:
    """The rows that PostgreSQL's plan touches, also those that a filter drops."""

    def __init__(self, url: str) -> None:
        self.total = 0
        self._url = url

    async def read(self, sql: str, values: Row = ()) -> list[Row]:
        connection = await connect_to_postgres(self._url)
        try:
            for table in ("sessions", "shares", "permission_requests", "worktrees", "repos"):
                await connection.execute(f"ANALYZE {table}")
            question = translate(sql)
            found = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {question}", *values)
            self.total += _visited(json.loads(found)[0]["Plan"])
            return [tuple(row) for row in await connection.fetch(question, *values)]
        finally:
            await connection.close()


def _visited(plan: dict[str, Any]) -> int:
    rows = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
    own = int(rows * plan["Actual Loops"])
    return own + sum(map(_visited, plan.get("Plans", ())))

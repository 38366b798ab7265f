"""Reading from PostgreSQL: a few connections that cannot write.

After a question that the server did not answer, a short one is asked until it is answered. Nobody
else may ask any more: a daemon that is not ready gets no requests.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import asyncpg  # type: ignore[import-untyped]

from agor.daemon.store.base import READ_SECONDS, Row, Statement
from agor.daemon.store.events import LAST_OF_PAGE
from agor.daemon.store.postgres import faults
from agor.daemon.store.postgres.connection import Connection, connect
from agor.daemon.store.postgres.sql import translate
from agor.errors import StoreError, StoreUnavailable

T = TypeVar("T")

_CONNECTIONS = 4
#: A question is asked again if its connection broke: the pool may have had an old one.
_TRIES = 2
#: Seconds between two of the short questions.
_PAUSE = 1.0


_EVENTS = f"""
SELECT sequence, body FROM events
WHERE session_number = ? AND sequence > ? AND sequence <= ({LAST_OF_PAGE})
ORDER BY sequence
"""  # noqa: S608 - no values in it


class Readers:
    """The connections that read."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool: Any = None
        #: Whether the server answered the last question.
        self.answering = True
        self._recovering: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Make the first connection."""
        self._pool = await asyncpg.create_pool(
            min_size=1, max_size=_CONNECTIONS, connect=self._connect, reset=_leave
        )

    async def close(self) -> None:
        """End the questions under way, and the connections."""
        if self._recovering is not None:
            self._recovering.cancel()
        try:
            async with asyncio.timeout(1):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()

    async def read(self, sql: str, values: Row = ()) -> list[Row]:
        """Ask one question."""

        async def ask(connection: Connection) -> list[Row]:
            return await _fetch(connection, sql, values)

        return await self._ask(ask)

    async def snapshot(self, questions: Sequence[Statement]) -> list[list[Row]]:
        """Ask several questions of one moment."""

        async def ask(connection: Connection) -> list[list[Row]]:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                return [await _fetch(connection, sql, values) for sql, values in questions]

        return await self._ask(ask)

    async def events(
        self, number: int, after: int, limit_rows: int, limit_bytes: int
    ) -> list[tuple[int, bytes]]:
        """Read a page of a feed."""
        values = (number, after, number, after, limit_rows, limit_bytes)
        return [(sequence, body) for sequence, body in await self.read(_EVENTS, values)]

    async def _ask(self, ask: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            answer = await self._ask_in_time(ask)
        except StoreUnavailable:
            self.answering = False
            if self._recovering is None:
                self._recovering = asyncio.create_task(self._recover())
            raise
        self.answering = True
        return answer

    async def _recover(self) -> None:
        """Ask until there is an answer."""
        while not self.answering:
            with contextlib.suppress(StoreError):
                await self.read("SELECT 1")
            await asyncio.sleep(_PAUSE)
        self._recovering = None

    async def _ask_in_time(self, ask: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(READ_SECONDS):
                return await self._try(ask)
        except TimeoutError:
            raise StoreUnavailable(
                f"the PostgreSQL server did not answer a question within {READ_SECONDS:g} s",
                hint="See that it runs and can be reached; the daemon goes on by itself.",
            ) from None

    async def _try(self, ask: Callable[[Connection], Awaitable[T]]) -> T:
        for left in reversed(range(_TRIES)):
            try:
                async with self._pool.acquire() as connection:
                    return await _asked(ask, connection)
            except StoreError:
                raise
            except Exception as error:
                if left == 0:
                    raise faults.unavailable(error) from error
        raise AssertionError

    async def _connect(self, *_: Any, **__: Any) -> Connection:
        return await connect(self._url, default_transaction_read_only="on")


async def _asked(ask: Callable[[Connection], Awaitable[T]], connection: Connection) -> T:
    try:
        return await ask(connection)
    except asyncio.CancelledError:
        # Nobody waits for the answer, and giving it back would wait for it.
        connection.terminate()
        raise
    except Exception as error:
        if faults.of_the_server(error, connection):
            raise
        raise faults.refused(error) from error


async def _fetch(connection: Connection, sql: str, values: Row) -> list[Row]:
    return [tuple(row) for row in await connection.fetch(translate(sql), *values)]


async def _leave(_: Connection) -> None:
    """Nothing of a question stays behind that would have to be reset."""

"""The one task that writes to PostgreSQL.

It takes whatever waits as soon as the last commit is done, and commits it as one group. When the
connection breaks it connects again, at once and then with growing pauses. Meanwhile new writes are
refused; only a group whose commit was under way waits, until its number in `last_commit` has told
what became of it. A server that takes too long to answer is treated in the same way (see `stall`).
A connection on which nothing is written is probed, so that this is noticed then as well.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import structlog

from agor.daemon.store.chain import Link
from agor.daemon.store.line import Line, Waiting, refuse_all
from agor.daemon.store.postgres import faults
from agor.daemon.store.postgres.connection import (
    Connection,
    connect_alone,
    last_commit,
    prepare,
)
from agor.daemon.store.postgres.transaction import (
    OutcomeUnknownError,
    commit_each,
    commit_together,
    roll_back,
)
from agor.daemon.store.stall import Stall
from agor.errors import StoreError, StoreUnavailable

log = structlog.get_logger("agor.store")

#: Pauses between attempts to connect, in seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
#: Ticks without a commit after which the server is asked for a sign of life.
_IDLE_TICKS = 3


class Writer:
    """The task and its connection."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._line: Line
        self._connection: Connection
        #: The server's process of our connection; a connection that has ended does not tell it.
        self._backend: int | None = None
        self._number = 0
        #: Where the audit log ends; looked up when it is needed after anything went wrong.
        self._head: Link | None = None
        self._bell = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        #: Whether the server owes an answer.
        self._busy = False
        #: Ticks since it last did, and whether to send a probe as soon as nothing is in the line.
        self._idle_ticks = 0
        self._probe_due = False
        self._stall: Stall
        #: Why nothing can be written now.
        self.outage: StoreUnavailable | None = None

    @property
    def stall(self) -> StoreUnavailable | None:
        """Why nobody should wait for the server; none while it answers."""
        return self._stall.error

    async def open(self) -> None:
        """Connect, lock other daemons out, bring the schema up to date."""
        self._connection = await connect_alone(self._url)
        try:
            await prepare(self._connection, self._url)
            self._number = await last_commit(self._connection)
        except BaseException:
            self._connection.terminate()
            raise
        self._listen()

    def start(self, line: Line) -> None:
        """Begin to write."""
        self._line = line
        self._stall = Stall(line, "the PostgreSQL server")
        self._tasks = [
            asyncio.create_task(self._run(), name="agor-writer"),
            asyncio.create_task(self._stall.watch(self._tick)),
        ]

    def wake(self, *_: Any) -> None:
        """There is something in the line, or the connection has ended, or a probe is due."""
        self._bell.set()

    async def close(self) -> None:
        """End the task and the connection, whatever is in the line."""
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._connection.remove_termination_listener(self.wake)
        try:
            await self._connection.close(timeout=1)
        except Exception:  # noqa: BLE001 - it is not needed any more
            self._connection.terminate()

    async def _run(self) -> None:
        while True:
            await self._bell.wait()
            self._bell.clear()
            self._busy = True
            while True:
                if self._connection.is_closed():
                    await self._reconnect()
                if group := self._line.take():
                    await self._write(group)
                elif self._probe_due:
                    await self._probe()
                else:
                    break
            self._busy, self._idle_ticks = False, 0

    def _tick(self) -> bool:
        """Have an idle connection probed; tells whether the server owes an answer."""
        if not self._busy:
            self._idle_ticks += 1
            if self._idle_ticks >= _IDLE_TICKS:
                self._probe_due = True
                self.wake()
        return self._busy

    async def _probe(self) -> None:
        """Ask the server for a sign of life; without one, the connection is made anew."""
        self._probe_due = False
        try:
            await self._connection.execute("SELECT 1")
        except Exception as error:  # noqa: BLE001 - any of the driver's; nothing was under way
            self._connection.terminate()
            log.warning("probe_failed", why=str(faults.unavailable(error)))
        else:
            self._stall.progress()

    async def _write(self, group: list[Waiting]) -> None:
        try:
            refused = await self._commit(group)
        except asyncio.CancelledError:
            # Whether it was stored will never be known here.
            for waiting in group:
                waiting.done.cancel()
            raise
        self._stall.progress()
        self._line.settle(group, refused)

    async def _commit(self, group: list[Waiting]) -> dict[int, StoreError]:
        connection, writes = self._connection, [waiting.write for waiting in group]
        self._number += 1
        try:
            try:
                self._head = await commit_together(connection, self._number, writes, self._head)
                refused: dict[int, StoreError] = {}
            except Exception as error:
                if isinstance(error, OutcomeUnknownError) or faults.of_the_server(
                    error, connection
                ):
                    raise
                await roll_back(connection)
                refused, self._head = await commit_each(connection, self._number, writes)
        except OutcomeUnknownError as error:
            return await self._find_out(group, error)
        except Exception as error:  # noqa: BLE001 - any of the driver's; nothing was committed
            # The connection may be fine, but in the middle of something.
            connection.terminate()
            log.warning("commit_failed", why=str(error))
            return refuse_all(group, faults.unavailable(error))
        return refused

    async def _find_out(
        self, group: list[Waiting], unknown: OutcomeUnknownError
    ) -> dict[int, StoreError]:
        number, error = self._number, unknown.__cause__ or unknown
        self._connection.terminate()
        log.warning("commit_broken_off", why=str(error), number=number)
        await self._reconnect()
        if self._number == number:
            return dict(unknown.refused)
        return refuse_all(group, faults.unavailable(error))

    async def _reconnect(self) -> None:
        """Connect again, however long that takes; what waits is refused from the first failure."""
        pause = _FIRST_PAUSE
        while True:
            connection: Connection = None
            try:
                connection = await connect_alone(self._url, self._backend)
                self._number = await last_commit(connection)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
                if connection is not None:
                    connection.terminate()
                self._refuse(error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
                continue
            self._connection = connection
            self._head = None
            self.outage = None
            self._listen()
            self._stall.progress()
            log.info("store_connected")
            return

    def _refuse(self, error: Exception) -> None:
        outage = faults.unavailable(error)
        if isinstance(error, StoreError):
            outage = StoreUnavailable(error.message, hint=error.hint)
        if self.outage is None:
            log.warning("store_unavailable", why=outage.message)
        self.outage = outage
        while group := self._line.take():
            self._line.settle(group, refuse_all(group, outage))

    def _listen(self) -> None:
        self._backend = self._connection.get_server_pid()
        self._connection.add_termination_listener(self.wake)

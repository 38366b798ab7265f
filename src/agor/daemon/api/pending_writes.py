"""Requests that store something, until they are answered: nobody waits for a stalled database.

A commit that is under way cannot be called off, and memory must follow what is stored. So when the
database stalls, clients get an error, and the work goes on without them, as it does if a client
hangs up; its own answer is then dropped.

Nothing is started for a request that is answered in time: one timer looks after all of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from agor.daemon.api.answers import Scope, Send
from agor.daemon.api.route import Request, Route
from agor.errors import StoreUnavailable

#: Seconds between two looks at the database while requests wait.
_CHECK_SECONDS = 1.0


@dataclass(eq=False, slots=True)
class PendingWrite:
    """A request that may be waiting for the database."""

    route: Route
    request: Request[Any]
    scope: Scope
    send: Send
    began: float
    #: Sends the client an error; None while the answer of the handler is the one to send.
    refusal: asyncio.Task[None] | None = None


class PendingWrites:
    """All such requests."""

    def __init__(
        self,
        stall: Callable[[], StoreUnavailable | None],
        refuse: Callable[[PendingWrite, StoreUnavailable], Coroutine[Any, Any, None]],
    ) -> None:
        self._stall = stall
        self._refuse = refuse
        #: With the time at which each came.
        self._pending: dict[PendingWrite, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, write: PendingWrite) -> None:
        """Look after a request from now on."""
        self._pending[write] = time.monotonic()
        if self._timer is None:
            self._start_timer()

    def discard(self, write: PendingWrite) -> None:
        """Leave a request alone: its work is done."""
        self._pending.pop(write, None)

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._check)

    def _check(self) -> None:
        self._timer = None
        stall = self._stall() if self._pending else None
        if stall is not None:
            # What came since the last look is refused by the store itself, which knows that nothing
            # of it was stored.
            before = time.monotonic() - _CHECK_SECONDS
            for write in [each for each, came in self._pending.items() if came <= before]:
                del self._pending[write]
                write.refusal = asyncio.create_task(self._refuse(write, stall))
        if self._pending:
            self._start_timer()

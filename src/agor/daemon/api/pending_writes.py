"""Requests that store something, until they are answered: nobody waits for a stalled database.

A commit that is under way cannot be called off, and memory must follow what is stored. So when the
database stalls, clients get an error, and the work goes on without them, as it does if a client
hangs up; its own answer is then dropped.

Nothing is started for a request that is answered in time: one timer looks after all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
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
    #: Whether the client has got an error meanwhile.
    answered: bool = False


class PendingWrites:
    """All such requests."""

    def __init__(
        self,
        stall: Callable[[], StoreUnavailable | None],
        refuse: Callable[[PendingWrite, StoreUnavailable], Awaitable[None]],
    ) -> None:
        self._stall = stall
        self._refuse = refuse
        self._pending: set[PendingWrite] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._refusals: set[asyncio.Task[None]] = set()

    def add(self, write: PendingWrite) -> None:
        """Look after a request from now on."""
        self._pending.add(write)
        if self._timer is None:
            self._start_timer()

    def discard(self, write: PendingWrite) -> None:
        """Leave a request alone: its work is done."""
        self._pending.discard(write)

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._check)

    def _check(self) -> None:
        self._timer = None
        stall = self._stall() if self._pending else None
        if stall is not None:
            for write in self._pending:
                write.answered = True
                refusal = asyncio.ensure_future(self._refuse(write, stall))
                self._refusals.add(refusal)
                refusal.add_done_callback(self._refusals.discard)
            self._pending.clear()
        if self._pending:
            self._start_timer()

"""Executors that were started ahead, for nobody yet: whoever needs one has it at once.

A spare is started and greeted, and in its control groups, which is nearly all that a start costs.
It has no record: a daemon that comes after us does not know it, and ends it.

Their number follows demand: `spare_executors`, or as many as were needed at once lately.

Invariants:
- only a Unix user who has needed an executor has any, and nobody has more than `MOST`, or than
  `max_executors`, whichever is less (or than `spare_executors`, if that is more);
- one that has ended is not given to anybody, and another is started in its place;
- who has needed none for long has none, and no launcher either, but for the daemon's own user;
- after `close` there is none.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial

import structlog

from agor.daemon.pool.ending import Ending
from agor.daemon.pool.launchers import Launchers
from agor.daemon.pool.pooled import PooledExecutor
from agor.daemon.pool.states import State
from agor.environments.identity import UnixIdentity, way_to
from agor.errors import AgorError

log = structlog.get_logger("agor.pool")

#: Spares of one Unix user at most that are kept because as many were needed at once.
MOST = 16
#: Claims within so many seconds are taken to have come at once.
_AT_ONCE = 1.0
#: Seconds for which as many are kept as came at once.
_REMEMBERED = 600.0
#: Seconds without a claim before a launcher with the agents' libraries is started: importing them
#: takes a second of a processor.
_QUIET = 3.0
#: Seconds before another is started: whoever just got one needs the processors first.
_PAUSE = 0.1
#: So many times as long it is waited for quiet at most: who come steadily need spares as well.
_LONGEST_WAIT = 3
#: Seconds before it is tried again if none could be started. Then the next claim begins anew.
_RETRIES = (1.0, 5.0, 30.0)
#: Seconds at most before one that died while it waited is replaced: twice as long each time.
_LONGEST_BACK_OFF = 60.0
#: Seconds after which somebody who needs none any more is taken to be away.
_AWAY = 1800.0


@dataclass
class _Reserve:
    """The spares of one Unix user."""

    identity: UnixIdentity
    ready: list[PooledExecutor] = field(default_factory=list)
    filling: asyncio.Task[None] | None = None
    #: Since when there is no more to it than waiting for quiet; none if there is.
    resting_since: float | None = None
    #: When those came who came last.
    claims: deque[float] = field(default_factory=lambda: deque(maxlen=MOST))
    #: As many came at once lately.
    demand: int = 0
    #: Forgets that.
    forgetting: asyncio.TimerHandle | None = None
    #: Seconds to wait because spares died while they waited.
    back_off: float = 0.0
    #: Ends it all if nobody comes.
    leaving: asyncio.TimerHandle | None = None


class Spares:
    """The spares of all Unix users."""

    def __init__(
        self,
        least: int,
        most: int,
        launchers: Launchers,
        make: Callable[[UnixIdentity], PooledExecutor],
    ) -> None:
        self._least = least
        self._most = min(most, MOST)
        self._launchers = launchers
        self._make = make
        #: By name and number: either may come to mean somebody else.
        self._reserves: dict[tuple[str, int], _Reserve] = {}
        self._ends: set[asyncio.Task[None]] = set()
        self._closed = False

    def take(self, identity: UnixIdentity) -> PooledExecutor | None:
        """Take one that is ready, if there is one; another follows when it is quiet."""
        key = identity.name, identity.uid
        reserve = self._reserves.setdefault(key, _Reserve(identity))
        reserve.identity = identity
        found = next((each for each in reserve.ready if _is_well(each)), None)
        if found is not None:
            reserve.ready.remove(found)
            reserve.back_off = 0.0
        self._note_demand(reserve)
        self._fill_later(reserve)
        self._leave_later(reserve)
        return found

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(len(each.ready) for each in self._reserves.values())

    async def close(self) -> None:
        """End them all: nobody will need them any more."""
        self._closed = True
        for reserve in self._reserves.values():
            for timer in (reserve.leaving, reserve.forgetting):
                if timer is not None:
                    timer.cancel()
        await asyncio.gather(*self._ends, *map(_empty, self._reserves.values()))

    # ── demand ───────────────────────────────────────────────────────────────────────────────

    def _note_demand(self, reserve: _Reserve) -> None:
        """Keep as many from now on as have come at once, for a while."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        reserve.claims.append(now)
        at_once = sum(now - each <= _AT_ONCE for each in reserve.claims)
        if at_once < max(2, reserve.demand):
            return
        reserve.demand = at_once
        if reserve.forgetting is not None:
            reserve.forgetting.cancel()
        reserve.forgetting = loop.call_later(_REMEMBERED, self._forget_demand, reserve)

    def _forget_demand(self, reserve: _Reserve) -> None:
        reserve.demand, reserve.forgetting = 0, None
        surplus, reserve.ready = reserve.ready[self._least :], reserve.ready[: self._least]
        self._keep(_stop(surplus))

    def _wanted(self, reserve: _Reserve) -> int:
        return max(self._least, min(reserve.demand, self._most)) if self._least else 0

    # ── filling ──────────────────────────────────────────────────────────────────────────────

    def _fill_later(self, reserve: _Reserve) -> None:
        """Begin to wait for a quiet moment, again if that is under way already."""
        now = asyncio.get_running_loop().time()
        since = reserve.resting_since
        if self._closed or (reserve.filling is not None and since is None):
            return
        pause = self._pause(reserve)
        if reserve.filling is not None and since is not None:
            if now - since > _LONGEST_WAIT * pause:
                return
            reserve.filling.cancel()
        reserve.resting_since = since or now
        reserve.filling = asyncio.create_task(self._fill(reserve, pause))

    def _pause(self, reserve: _Reserve) -> float:
        return _PAUSE if self._launchers.preloaded(reserve.identity) else _QUIET

    async def _fill(self, reserve: _Reserve, pause: float) -> None:
        await asyncio.sleep(pause)
        reserve.resting_since = None
        try:
            for retry in (*_RETRIES, None):
                try:
                    await self._get_ahead(reserve)
                    break
                except (AgorError, OSError) as error:
                    log.warning("no_spare", user=reserve.identity.name, why=str(error))
                except Exception:
                    log.exception("no_spare", user=reserve.identity.name)
                if retry is not None:
                    await asyncio.sleep(retry)
        finally:
            reserve.filling = None

    async def _get_ahead(self, reserve: _Reserve) -> None:
        """Have the launcher ready, and as many spares as are wanted."""
        identity = reserve.identity
        await self._launchers.preload(identity)
        while len(reserve.ready) < self._wanted(reserve):
            await asyncio.sleep(reserve.back_off)
            spare = self._make(identity)
            await spare.start()
            reserve.ready.append(spare)
            spare.ended.add_done_callback(partial(self._lose, reserve, spare))

    def _lose(self, reserve: _Reserve, spare: PooledExecutor, _: asyncio.Future[Ending]) -> None:
        """A spare has ended, unless it is somebody's by now."""
        with contextlib.suppress(ValueError):
            reserve.ready.remove(spare)
            reserve.back_off = min(max(2 * reserve.back_off, _PAUSE), _LONGEST_BACK_OFF)
            self._fill_later(reserve)

    # ── who is away ──────────────────────────────────────────────────────────────────────────

    def _leave_later(self, reserve: _Reserve) -> None:
        """Count the time anew after which they are taken to be away. We never are."""
        if self._closed or way_to(reserve.identity) == "self":
            return
        if reserve.leaving is not None:
            reserve.leaving.cancel()
        loop = asyncio.get_running_loop()
        reserve.leaving = loop.call_later(_AWAY, self._leave, reserve)

    def _leave(self, reserve: _Reserve) -> None:
        identity = reserve.identity
        del self._reserves[identity.name, identity.uid]

        async def end() -> None:
            await _empty(reserve)
            await self._launchers.send_away(identity)

        if reserve.forgetting is not None:
            reserve.forgetting.cancel()
        self._keep(end())

    def _keep(self, work: Coroutine[object, object, None]) -> None:
        ending = asyncio.create_task(work)
        self._ends.add(ending)
        ending.add_done_callback(self._ends.discard)


async def _empty(reserve: _Reserve) -> None:
    """Start no more for it, and end those there are."""
    if reserve.filling is not None:
        reserve.filling.cancel()
        await asyncio.gather(reserve.filling, return_exceptions=True)
    # Nobody is to be started in their place.
    spares, reserve.ready = reserve.ready, []
    await _stop(spares)


async def _stop(spares: list[PooledExecutor]) -> None:
    await asyncio.gather(*(spare.stop("it was not needed") for spare in spares))


def _is_well(spare: PooledExecutor) -> bool:
    return spare.state is State.SPARE and spare.environment.connected

"""Executors that were started ahead, for nobody yet: whoever needs one has it at once.

A spare is started and greeted, and in its control groups, which is nearly all that a start costs.
It has no record: a daemon that comes after us does not know it, and ends it.

Invariants:
- each Unix user has at most `spare_executors` of them, and only who has needed an executor has any;
- one that has ended is not given to anybody, and another is started in its place;
- who has needed none for long has none, and no launcher either, but for the daemon's own user;
- after `close` there is none.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import structlog

from agor.daemon.pool.ending import Ending
from agor.daemon.pool.launchers import Launchers
from agor.daemon.pool.pooled import PooledExecutor
from agor.daemon.pool.states import State
from agor.environments.identity import UnixIdentity, way_to
from agor.errors import AgorError
from agor.protocol.forms import Nothing
from agor.protocol.launching import IMPORT_AHEAD, Process

log = structlog.get_logger("agor.pool")

#: Seconds without a claim before a launcher is asked to import the agents' libraries: that takes
#: one, in which nobody else can be started.
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
#: Seconds for a launcher to import them, on a busy machine.
_IMPORT_TIMEOUT = 120.0


@dataclass
class _Reserve:
    """The spares of one Unix user."""

    identity: UnixIdentity
    ready: list[PooledExecutor] = field(default_factory=list)
    filling: asyncio.Task[None] | None = None
    #: Since when there is no more to it than waiting for quiet; none if there is.
    resting_since: float | None = None
    #: The launcher that has imported the agents' libraries.
    imported: Process | None = None
    #: Seconds to wait because spares died while they waited.
    back_off: float = 0.0
    #: Ends it all if nobody comes.
    leaving: asyncio.TimerHandle | None = None


class Spares:
    """The spares of all Unix users."""

    def __init__(
        self, wanted: int, launchers: Launchers, make: Callable[[UnixIdentity], PooledExecutor]
    ) -> None:
        self._wanted = wanted
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
            if reserve.leaving is not None:
                reserve.leaving.cancel()
        await asyncio.gather(*self._ends, *map(_empty, self._reserves.values()))

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
        imported = reserve.imported
        ready = imported is not None and imported == self._launchers.process_of(reserve.identity)
        return _PAUSE if ready else _QUIET

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
        await self._launchers.ask(identity, IMPORT_AHEAD, Nothing(), timeout=_IMPORT_TIMEOUT)
        reserve.imported = self._launchers.process_of(identity)
        while len(reserve.ready) < self._wanted:
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

        ending = asyncio.create_task(end())
        self._ends.add(ending)
        ending.add_done_callback(self._ends.discard)


async def _empty(reserve: _Reserve) -> None:
    """Start no more for it, and end those there are."""
    if reserve.filling is not None:
        reserve.filling.cancel()
        await asyncio.gather(reserve.filling, return_exceptions=True)
    # Nobody is to be started in their place.
    spares, reserve.ready = reserve.ready, []
    await asyncio.gather(*(spare.stop("it was not needed") for spare in spares))


def _is_well(spare: PooledExecutor) -> bool:
    return spare.state is State.SPARE and spare.environment.connected

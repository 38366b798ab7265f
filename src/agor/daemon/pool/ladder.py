"""The way down for an executor: asked to end, then TERM, then KILL, then counted.

Every step is bounded, and skipped if it is over already. Nobody is believed to be gone who was not
looked for.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from signal import SIGKILL, SIGTERM

from agor.daemon.pool.cgroups import Cgroup
from agor.daemon.pool.parts import Parts
from agor.environments.identity import UnixIdentity
from agor.environments.launching import LauncherLink
from agor.errors import AgorError
from agor.execution import ExecutionEnvironment
from agor.protocol.launching import (
    CALL_OFF,
    COUNT_FAMILY,
    SIGNAL_FAMILY,
    CallOffParams,
    Family,
    SignalParams,
)

#: Signals in their order, each with the seconds to wait for what it does.
_STEPS = ((SIGTERM, 2.0), (SIGKILL, 10.0))
#: Seconds for a question to the launcher.
_ASK = 10.0
#: How often survivors are killed and counted again.
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Ladder:
    """What is needed to end one executor."""

    parts: Parts
    identity: UnixIdentity
    environment: ExecutionEnvironment
    #: Set once the keeper has ended, and so everything below it.
    keeper_gone: asyncio.Event
    #: Not known if the launcher died before it could say whom it had started.
    family: Family | None
    #: The launcher that was asked to start it, if any was.
    link: LauncherLink | None
    cgroup: Cgroup | None

    async def climb(self, reason: str, *, hung: bool) -> int:
        """End it; returns how many processes of it are left."""
        if not self.keeper_gone.is_set() and not hung:
            await self._ask(reason)
        if not self.keeper_gone.is_set():
            await self._force()
        return await self._verify()

    async def _ask(self, reason: str) -> None:
        timeout = self.parts.settings.stop_timeout
        with contextlib.suppress(AgorError, TimeoutError):
            async with asyncio.timeout(timeout):
                if not self.environment.connected:
                    # It may have started and not been greeted yet.
                    await self.environment.reconnect(timeout)
                await self.environment.shut_down(reason, 0)
                if self.family is None:
                    await self.environment.wait_disconnected()
                else:
                    await self.keeper_gone.wait()

    async def _force(self) -> None:
        if self.family is None:
            await self._signal(SIGKILL)
            await self._kill_latecomer()
            return
        for number, grace in _STEPS:
            await self._signal(number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.keeper_gone.wait(), grace)
                return

    async def _kill_latecomer(self) -> None:
        """End it if the launcher comes to our request only after we have given up.

        A launcher reads requests in their order: once it answers this one, it has read the other.
        One that is gone, or that we have hung up on, starts nothing any more.
        """
        if self.link is not None and self.link.open:
            params = CallOffParams(executor_id=self.environment.executor_id)
            with contextlib.suppress(AgorError):
                await self.link.call(CALL_OFF, params, timeout=_ASK)

    async def _signal(self, number: int) -> None:
        if number == SIGKILL and self.cgroup is not None:
            await self.cgroup.kill()
        if self.family is not None:
            with contextlib.suppress(AgorError):
                params = SignalParams(family=self.family, signal=number)
                await self.parts.launchers.ask(self.identity, SIGNAL_FAMILY, params, timeout=_ASK)

    async def _verify(self) -> int:
        """Count what is left; whoever lost its keeper is killed, and counted again."""
        survivors = await self._count()
        for _ in range(_ROUNDS):
            if survivors == 0:
                break
            await self._signal(SIGKILL)
            survivors = await self._count()
        # A keeper that does not end has not seen to the end of the others.
        stuck = self.family is not None and not self.keeper_gone.is_set()
        return survivors + stuck

    async def _count(self) -> int:
        # Being in a cgroup is the one mark that cannot be shed.
        if self.family is None or (self.cgroup is not None and not self.cgroup.populated()):
            return 0
        ask = self.parts.launchers.ask
        return (await ask(self.identity, COUNT_FAMILY, self.family, timeout=_ASK)).count

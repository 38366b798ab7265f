"""One terminal that is open, in memory: its executor on one side, its clients on the other.

Invariants:
- the executor is attached to while there is a client, and only then: else it need not send;
- what comes while we attach waits until the answer is dealt with, as it may overtake it;
- an end is begun once, whoever sees it first.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Protocol

from agor.daemon.services.stamps import Stopwatch
from agor.daemon.services.terminals.attachment import Attachment
from agor.daemon.services.terminals.audience import Audience, Queue, beyond
from agor.daemon.store.rows import TerminalRow
from agor.errors import AgorError, Conflict, Disconnected, InvalidParams, UnknownTask
from agor.execution import ExecutionEnvironment
from agor.protocol.terminals import WINDOW, AttachTerminalResult, ReportTerminalParams

#: Clients of one terminal.
MOST_CLIENTS = 8
#: Bytes that may come while we attach.
_MOST_HELD = 4 * WINDOW
_OTHERS = "agor terminal list shows others."


class Keeper(Protocol):
    """Who decides what becomes of terminals."""

    def shell_ended(self, terminal: LiveTerminal, exit_code: int) -> None:
        """Its shell has ended by itself."""

    def abandoned(self, terminal: LiveTerminal) -> None:
        """Nobody was attached for as long as that may be."""


class LiveTerminal:
    """A terminal whose shell runs."""

    def __init__(
        self,
        row: TerminalRow,
        environment: ExecutionEnvironment,
        keeper: Keeper,
        timeout: float,
    ) -> None:
        self.row = row
        self.environment = environment
        self.age = Stopwatch(row.created_at)
        self._keeper = keeper
        self._timeout = timeout
        self.audience = Audience(
            lambda place: environment.terminals.acknowledge(row.terminal_id, place)
        )
        #: Set once its end has begun.
        self.ending: asyncio.Task[None] | None = None
        #: One attaches at a time.
        self._turn = asyncio.Lock()
        self._held: list[ReportTerminalParams] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._watching = asyncio.create_task(self._watch())
        self._wait_for_somebody()

    @property
    def terminal_id(self) -> str:
        """Name it."""
        return self.row.terminal_id

    # ── clients ──────────────────────────────────────────────────────────────────────────────

    def refuse_if_full(self) -> None:
        """Raise `Conflict` if no client can attach."""
        if self.ending is not None:
            raise Conflict("this terminal is being closed", hint=_OTHERS)
        if len(self.audience) >= MOST_CLIENTS:
            raise Conflict(
                f"{MOST_CLIENTS} clients are attached to this terminal already",
                hint="Detach one of them, or open another terminal.",
            )

    async def attach(self, after: int) -> Attachment:
        """Let a client in who has all before a place."""
        letting_in = asyncio.create_task(self._let_in(after))
        try:
            return await asyncio.shield(letting_in)
        except asyncio.CancelledError:
            # Those who look already need the answer that is under way.
            letting_in.add_done_callback(_turn_away)
            raise

    async def _let_in(self, after: int) -> Attachment:
        async with self._turn:
            self.refuse_if_full()
            place = min(after, self.audience.place) if len(self.audience) else after
            try:
                told, held = await self._attach_there(place)
                queue = self.audience.admit(after, told)
            except InvalidParams:
                raise beyond(after) from None
            except UnknownTask:
                raise Conflict("this terminal is being closed", hint=_OTHERS) from None
            finally:
                if not len(self.audience):
                    self.environment.terminals.detach(self.terminal_id)
            self._stop_waiting()
            try:
                for report in held:
                    self._hand_on(report)
            except InvalidParams as error:
                # Who sends so much is being ended for it.
                self.leave(queue)
                raise Disconnected("the terminal's executor broke the protocol") from error
        if told.exit_code is not None:
            self._keeper.shell_ended(self, told.exit_code)
        return Attachment(self, queue)

    def leave(self, queue: Queue) -> None:
        """Let a client go."""
        self.audience.leave(queue)
        if len(self.audience) or self.ending is not None:
            return
        self._wait_for_somebody()
        # Who is attaching now would be detached by it.
        if not self._turn.locked():
            self.environment.terminals.detach(self.terminal_id)

    async def press(self, keys: bytes) -> None:
        """Type."""
        await self.environment.terminals.type(self.terminal_id, keys)

    async def resize(self, cols: int, rows: int) -> None:
        """Tell what runs inside how large the window is; the last word of its clients counts."""
        await self.environment.terminals.resize(self.terminal_id, cols, rows)

    # ── the executor ─────────────────────────────────────────────────────────────────────────

    def take(self, report: ReportTerminalParams) -> None:
        """Take what was printed, or that the shell has ended."""
        if self._held is None:
            self._hand_on(report)
            return
        self._held.append(report)
        if sum(len(each.data) for each in self._held) > _MOST_HELD:
            raise InvalidParams("a terminal printed more than its window while it was attached to")

    def _hand_on(self, report: ReportTerminalParams) -> None:
        self.audience.take(report.offset, report.data)
        if report.exit_code is not None:
            self._keeper.shell_ended(self, report.exit_code)

    async def _attach_there(
        self, after: int
    ) -> tuple[AttachTerminalResult, list[ReportTerminalParams]]:
        """Have the executor send from a place on; gives what came with the answer, for later."""
        held = self._held = []
        try:
            told = await self.environment.terminals.attach(self.terminal_id, after)
        except BaseException:
            self._held = None
            for report in held:
                self._hand_on(report)
            raise
        self._held = None
        self.audience.begin(told)
        return told, held

    async def _watch(self) -> None:
        """After a cut, look how the terminal is, and attach again for those who look at it."""
        while True:
            with contextlib.suppress(Disconnected):
                await self.environment.wait_disconnected()
            try:
                await self.environment.wait_connected()
            except Disconnected:
                # The executor has ended: that is told by others.
                return
            if len(self.audience):
                await self._attach_again()
            elif (exit_code := self._exit_code()) is not None:
                self._keeper.shell_ended(self, exit_code)

    async def _attach_again(self) -> None:
        async with self._turn:
            with contextlib.suppress(AgorError):
                told, held = await self._attach_there(self.audience.place)
                for report in held:
                    self._hand_on(report)
                if told.exit_code is not None:
                    self._keeper.shell_ended(self, told.exit_code)

    def _exit_code(self) -> int | None:
        """Tell the exit code that the executor gave at the last greeting, if it did."""
        info = self.environment.info
        found = [] if info is None else info.terminals
        return next(
            (each.exit_code for each in found if each.terminal_id == self.terminal_id), None
        )

    # ── its end ──────────────────────────────────────────────────────────────────────────────

    def _wait_for_somebody(self) -> None:
        loop = asyncio.get_running_loop()
        self._stop_waiting()
        self._timer = loop.call_later(self._timeout, self._keeper.abandoned, self)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def let_go(self) -> None:
        """Look after it no more: it ends, or the daemon does."""
        self._stop_waiting()
        self._watching.cancel()


def _turn_away(letting_in: asyncio.Task[Attachment]) -> None:
    """Let go for a client who has gone before it was let in."""
    if not letting_in.cancelled() and letting_in.exception() is None:
        letting_in.result().leave()

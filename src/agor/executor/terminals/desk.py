"""Answers the calls about terminals: which there are, and who may look at them from where."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Coroutine
from typing import Any

import structlog

from agor.errors import HandlerFailed, Overloaded, UnknownTask
from agor.executor.delivery import Delivery
from agor.executor.folders import need_folder
from agor.executor.terminals.shell import Shell
from agor.executor.terminals.terminal import Terminal
from agor.protocol.forms import Nothing
from agor.protocol.methods import (
    ACK_TERMINAL,
    ATTACH_TERMINAL,
    CLOSE_TERMINAL,
    DETACH_TERMINAL,
    RESIZE_TERMINAL,
    TERMINAL_INPUT,
)
from agor.protocol.terminals import (
    AckTerminalParams,
    AttachTerminalParams,
    AttachTerminalResult,
    CloseTerminalParams,
    DetachTerminalParams,
    ResizeTerminalParams,
    SpawnTerminalParams,
    SpawnTerminalResult,
    TerminalInfo,
    TerminalInputParams,
)
from agor.protocol.validation import quoted
from agor.rpc import Peer, Routes

log = structlog.get_logger("agor.executor")

#: Terminals of one executor, those included whose shell has ended.
MAX_TERMINALS = 8


class TerminalDesk:
    """The terminals of this executor. They belong to it, and not to the connection they came by."""

    def __init__(self, delivery: Delivery, max_line: int) -> None:
        self._delivery = delivery
        self._max_line = max_line
        self._terminals: dict[str, Terminal] = {}
        self._opening: dict[str, asyncio.Task[Terminal]] = {}
        self._closing: dict[str, asyncio.Task[None]] = {}

    def serve(self, routes: Routes, peer: Peer) -> None:
        """Serve a connection all but `spawn_terminal`, which depends on more."""
        routes.on(ATTACH_TERMINAL, functools.partial(self._attach, peer))
        routes.on_notice(DETACH_TERMINAL, functools.partial(self._detach, peer))
        routes.on_notice(ACK_TERMINAL, functools.partial(self._acknowledge, peer))
        routes.on(TERMINAL_INPUT, self._type)
        routes.on(RESIZE_TERMINAL, self._resize)
        routes.on(CLOSE_TERMINAL, self._close)

    def infos(self) -> list[TerminalInfo]:
        """List those that are open, for a daemon that comes back."""
        return [one.info() for one in self._terminals.values() if not one.closing]

    def forget(self, peer: Peer) -> None:
        """A connection is gone: nobody looks from there any more."""
        for terminal in self._terminals.values():
            terminal.detach(peer)

    # ── opening and closing ──────────────────────────────────────────────────────────────────

    async def spawn(self, params: SpawnTerminalParams) -> SpawnTerminalResult:
        """Open a shell, or tell again of the one with this id."""
        terminal = self._terminals.get(params.terminal_id)
        if terminal is None:
            opening = self._opening.get(params.terminal_id) or self._open_soon(params)
            # Whoever asked may vanish; the next one finds it open.
            terminal = await asyncio.shield(opening)
        if terminal.closing:
            raise HandlerFailed(
                "this terminal is being closed",
                hint="Open another one, with an id of its own.",
                code="terminal_ended",
            )
        return terminal.describe()

    def _open_soon(self, params: SpawnTerminalParams) -> asyncio.Task[Terminal]:
        need_folder(params.cwd)
        if len(self._terminals) + len(self._opening) >= MAX_TERMINALS:
            raise Overloaded(
                f"{MAX_TERMINALS} terminals are open already", hint="Close one of them first."
            )
        opening = asyncio.create_task(self._open(params))
        self._opening[params.terminal_id] = opening
        # Who asked for it is told of a failure, if they are still there.
        opening.add_done_callback(lambda done: done.cancelled() or done.exception())
        return opening

    async def _open(self, params: SpawnTerminalParams) -> Terminal:
        try:
            shell = await Shell.start(params)
        finally:
            del self._opening[params.terminal_id]
        log.info("terminal_opened", terminal_id=params.terminal_id, pid=shell.pid, shell=shell.path)
        terminal = Terminal(params, shell, self._delivery, self._max_line)
        self._terminals[params.terminal_id] = terminal
        return terminal

    def _close(self, params: CloseTerminalParams) -> Coroutine[Any, Any, Nothing]:
        # Begun at once: what is asked next finds it gone.
        self._begin_end(params.terminal_id)
        return self._end(params.terminal_id)

    async def close_all(self) -> None:
        """Close every terminal there is; one that cannot be must not keep the others, or us."""
        every = [*self._opening, *self._terminals]
        ends = await asyncio.gather(*map(self._end, every), return_exceptions=True)
        for error in (end for end in ends if isinstance(end, BaseException)):
            log.error("terminal_not_closed", exc_info=error)

    async def _end(self, terminal_id: str) -> Nothing:
        """Close one if it is there: that it is not is what was wanted."""
        if (opening := self._opening.get(terminal_id)) is not None:
            await asyncio.wait((opening,))
        if (closing := self._begin_end(terminal_id)) is not None:
            # Once begun it happens, whether or not who asked for it waits.
            await asyncio.shield(closing)
        return Nothing()

    def _begin_end(self, terminal_id: str) -> asyncio.Task[None] | None:
        terminal = self._terminals.get(terminal_id)
        if terminal is None:
            return None
        if terminal_id not in self._closing:
            terminal.closing = True
            closing = asyncio.create_task(self._end_for_good(terminal_id, terminal))
            self._closing[terminal_id] = closing
        return self._closing[terminal_id]

    async def _end_for_good(self, terminal_id: str, terminal: Terminal) -> None:
        try:
            await terminal.close()
        finally:
            del self._terminals[terminal_id], self._closing[terminal_id]

    # ── what goes on in them ─────────────────────────────────────────────────────────────────

    def _attach(self, peer: Peer, params: AttachTerminalParams) -> AttachTerminalResult:
        return self._find(params.terminal_id).attach(peer, params.after)

    def _detach(self, peer: Peer, params: DetachTerminalParams) -> None:
        if (terminal := self._terminals.get(params.terminal_id)) is not None:
            terminal.detach(peer)

    def _acknowledge(self, peer: Peer, params: AckTerminalParams) -> None:
        # Of one that was closed meanwhile, or that somebody else looks at now: no harm.
        if (terminal := self._terminals.get(params.terminal_id)) is not None:
            terminal.acknowledge(peer, params.offset)

    def _type(self, params: TerminalInputParams) -> Nothing | asyncio.Future[Nothing]:
        return self._find(params.terminal_id).type(params.data)

    def _resize(self, params: ResizeTerminalParams) -> Nothing:
        return self._find(params.terminal_id).resize(params)

    def _find(self, terminal_id: str) -> Terminal:
        terminal = self._terminals.get(terminal_id)
        if terminal is None or terminal.closing:
            raise UnknownTask(
                f"there is no terminal {quoted(terminal_id)} here",
                hint="It was closed, or ended with its executor. Open another one.",
                code="unknown_terminal",
            )
        return terminal

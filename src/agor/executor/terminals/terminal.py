"""One terminal: what its shell prints, to whoever looks; what is typed, to the shell; its end.

Invariants:
- a byte is read only if it can be kept until it is sent: while somebody looks, no more than a
  window ahead of what they acknowledged, and then the program waits; while nobody does, all of it;
- to one viewer, what was answered and what is reported follow each other without gap or repetition;
- the end is told once, after all that was printed.
"""

from __future__ import annotations

import asyncio
import contextlib

import structlog

from agor.errors import Disconnected, HandlerFailed, InvalidParams
from agor.executor.delivery import Delivery
from agor.executor.terminals.keys import Keys
from agor.executor.terminals.output import Kept, Viewer, most_bytes
from agor.executor.terminals.shell import Shell
from agor.protocol.forms import Nothing
from agor.protocol.methods import REPORT_TERMINAL
from agor.protocol.terminals import (
    KEPT,
    AttachTerminalResult,
    ReportTerminalParams,
    ResizeTerminalParams,
    SpawnTerminalParams,
    SpawnTerminalResult,
    TerminalInfo,
)
from agor.rpc import Peer

log = structlog.get_logger("agor.executor")

#: Bytes that are read, and reported, at once.
_PIECE = 64 * 1024
#: Bytes that are read after the shell's end: more than the kernel holds. What it left in the
#: background may print for ever.
_LAST_WORDS = 128 * 1024


class Terminal:
    """An open terminal, until it is closed: also after its shell has ended."""

    def __init__(
        self, params: SpawnTerminalParams, shell: Shell, delivery: Delivery, max_line: int
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._id = params.terminal_id
        self._cols, self._rows = params.cols, params.rows
        self._shell = shell
        self._pty = shell.pty
        self._keys = Keys(self._pty)
        self._kept = Kept()
        self._viewer: Viewer | None = None
        self._delivery = delivery
        self._piece = most_bytes(_PIECE, max_line)
        self._most_answered = most_bytes(KEPT, max_line)
        self._reading = False
        self._exit_code: int | None = None
        #: Bytes that may yet be read once the shell has ended.
        self._last_words = _LAST_WORDS
        #: Whether nothing more will be printed.
        self._over = False
        self._told = False
        #: Whether somebody closes it.
        self.closing = False
        shell.when_exited(self._note_exit)
        self._go_on()

    def describe(self) -> SpawnTerminalResult:
        """Tell which shell was opened."""
        return SpawnTerminalResult(
            terminal_id=self._id, pid=self._shell.pid, shell=self._shell.path
        )

    def info(self) -> TerminalInfo:
        """Tell a daemon that comes back how it is."""
        code = self._exit_code if self._over else None
        return TerminalInfo(terminal_id=self._id, pid=self._shell.pid, exit_code=code)

    # ── looking ──────────────────────────────────────────────────────────────────────────────

    def attach(self, peer: Peer, after: int) -> AttachTerminalResult:
        """Have this connection, and no other, get what is printed from a place on."""
        if after > self._kept.end:
            raise InvalidParams(
                f"params.after: the terminal has printed {self._kept.end} bytes, not {after}"
            )
        self._leave()
        offset, data = self._kept.piece(after, self._most_answered)
        viewer = self._viewer = Viewer(peer, offset + len(data))
        self._told = self._over and viewer.sent == self._kept.end
        # What follows must come after the answer.
        self._loop.call_soon(self._go_on)
        return AttachTerminalResult(
            offset=offset,
            data=data,
            cols=self._cols,
            rows=self._rows,
            exit_code=self._exit_code if self._told else None,
        )

    def detach(self, peer: Peer) -> None:
        """Send no more to a connection, if it is the one that looks."""
        if self._viewer is not None and self._viewer.peer is peer:
            self._leave()
            self._go_on()

    def acknowledge(self, peer: Peer, offset: int) -> None:
        """Go on: the one that looks has passed on what it got so far."""
        if self._viewer is not None and self._viewer.peer is peer:
            self._viewer.acknowledge(offset)
            self._go_on()

    def _leave(self) -> None:
        if self._viewer is not None:
            self._viewer.leave()
            self._viewer = None

    # ── what is printed ──────────────────────────────────────────────────────────────────────

    def _go_on(self) -> None:
        """Send what may be sent, read on if there is room for it, and tell the end after all."""
        self._send()
        if self._exit_code is not None:
            self._take_last_words()
        self._watch(wanted=not self._over and not self._pty.cut and self._room() > 0)
        if self._over and not self._told and self._is_all_sent():
            self._told = True
            self._report(self._viewer, self._kept.end, code=self._exit_code)

    def _room(self) -> int:
        """How much may be read now: nothing while something that was read is unsent."""
        if self._viewer is None:
            return self._piece
        return min(self._piece, self._viewer.room) if self._is_all_sent() else 0

    def _is_all_sent(self) -> bool:
        return self._viewer is None or self._viewer.sent == self._kept.end

    def _watch(self, *, wanted: bool) -> None:
        if wanted and not self._reading:
            self._loop.add_reader(self._pty.near, self._read)
        elif self._reading and not wanted:
            self._loop.remove_reader(self._pty.near)
        self._reading = wanted

    def _read(self) -> None:
        self._kept.add(self._pty.read(self._room()))
        self._go_on()

    def _send(self) -> None:
        """Report what was read, as far as the window and the connection allow."""
        while (viewer := self._viewer) is not None and not self._is_all_sent() and viewer.room > 0:
            if viewer.peer.congested:
                self._send_later(viewer)
                return
            offset, data = self._kept.piece(viewer.sent, min(self._piece, viewer.room))
            viewer.sent = offset + len(data)
            self._report(viewer, offset, data)

    def _send_later(self, viewer: Viewer) -> None:
        async def wait() -> None:
            with contextlib.suppress(Disconnected):
                await viewer.peer.drain()
            viewer.relief = None
            self._go_on()

        if viewer.relief is None:
            viewer.relief = self._loop.create_task(wait())

    def _report(
        self, viewer: Viewer | None, offset: int, data: bytes = b"", code: int | None = None
    ) -> None:
        """Report to who looks; if nobody does, to the daemon."""
        report = ReportTerminalParams(
            terminal_id=self._id, offset=offset, data=data, exit_code=code
        )
        if viewer is None:
            self._delivery.notify(REPORT_TERMINAL, report)
            return
        try:
            viewer.peer.notify(REPORT_TERMINAL, report)
        except Disconnected:
            self._leave()

    # ── what is typed ────────────────────────────────────────────────────────────────────────

    def type(self, data: bytes) -> Nothing | asyncio.Future[Nothing]:
        """Type; a program that does not read makes who typed wait, and nobody else."""
        return self._keys.type(data)

    def resize(self, params: ResizeTerminalParams) -> Nothing:
        """Change the size of the window."""
        self._cols, self._rows = params.cols, params.rows
        if not self._pty.closed:
            self._pty.resize(params.cols, params.rows)
        return Nothing()

    # ── the end ──────────────────────────────────────────────────────────────────────────────

    def _note_exit(self, code: int) -> None:
        self._exit_code = code
        log.info("terminal_ended", terminal_id=self._id, exit_code=code)
        self._end_keys("the shell in this terminal has ended")
        self._go_on()

    def _take_last_words(self) -> None:
        """Read what the shell left: what can be read at once, as far as there is room for it."""
        while not self._over and (room := self._room()) > 0:
            data = self._pty.read(min(room, self._last_words))
            self._last_words -= len(data)
            self._kept.add(data)
            self._send()
            if not data:
                self._hang_up()

    def _hang_up(self) -> None:
        """Let go of the terminal as an emulator does whose shell has ended."""
        if not self._over:
            self._over = True
            self._watch(wanted=False)
            self._pty.close()

    async def close(self) -> None:
        """End the shell and what runs in it; nothing is told any more."""
        self._told = True
        self._end_keys("this terminal was closed")
        # Read on, for nobody: a program that has something to say as it ends must not wait.
        self._leave()
        self._go_on()
        await self._shell.hang_up()
        # Before the rest is killed: those that are another user's are told by the kernel.
        self._hang_up()
        await self._shell.stop()
        log.info("terminal_closed", terminal_id=self._id)

    def _end_keys(self, why: str) -> None:
        hint = "Open another one."
        self._keys.end(HandlerFailed(why, hint=hint, code="terminal_ended"))

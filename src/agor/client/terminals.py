"""Terminals, as a program uses them: what is printed and typed, over cuts and restarts.

Invariants:
- what is printed comes in order, each byte once; what is kept no more is counted, never hidden;
- what is typed is sent at most once: nobody wants a command to be run twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from agor.client.address import Find
from agor.client.calls import Calls
from agor.client.ids import in_path
from agor.client.reconnecting import ReconnectingSocket
from agor.errors import AgorError, Conflict, Disconnected, InvalidResult, NotFound
from agor.protocol.api import Page
from agor.protocol.terminal_api import Exited, NewTerminal, Resize, Terminal, Told, read_told
from agor.protocol.terminals import MAX_INPUT
from agor.protocol.validation import UNREADABLE, name_the_field

#: Seconds for the daemon to find an executor and to start a shell, or to end one.
_PATIENCE = 60.0
#: The close code that says that there is nothing to come back to.
_GONE = 4404


class TerminalCalls:
    """Requests about terminals."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def open(self, session_id: str, new: NewTerminal, key: str | None) -> Terminal:
        """Open one."""
        path = f"/sessions/{in_path(session_id)}/terminals"
        return await self._calls.ask("POST", path, Terminal, body=new, key=key, timeout=_PATIENCE)

    async def of_session(self, session_id: str) -> list[Terminal]:
        """List those of a session."""
        path = f"/sessions/{in_path(session_id)}/terminals"
        return (await self._calls.ask("GET", path, Page[Terminal])).items

    async def open_ones(self) -> list[Terminal]:
        """List one's own that are open."""
        return (await self._calls.ask("GET", "/terminals", Page[Terminal])).items

    async def get(self, terminal_id: str) -> Terminal:
        """Show one."""
        return await self._calls.ask("GET", f"/terminals/{in_path(terminal_id)}", Terminal)

    async def close(self, terminal_id: str) -> None:
        """Close one."""
        path = f"/terminals/{in_path(terminal_id)}"
        await self._calls.ask("DELETE", path, None, timeout=_PATIENCE)


class AttachedTerminal(ReconnectingSocket, AsyncIterator[bytes]):
    """What a terminal prints, piece by piece, until it ends. Close it, or use `async with`.

    Leaving it does not end the terminal.
    """

    what = "the terminal"
    longest = 2**22

    def __init__(
        self,
        find: Find,
        calls: TerminalCalls,
        terminal_id: str,
        after: int,
        reconnect_timeout: float | None,
    ) -> None:
        super().__init__(find, reconnect_timeout)
        self._calls = calls
        self._terminal_id = terminal_id
        #: How many bytes of what was printed have been given, or are kept no more.
        self.cursor = after
        #: How many of them are kept no more.
        self.lost = 0
        #: The size of its window, as the daemon told it last.
        self.cols, self.rows = 80, 24
        #: How it ended; none until it has.
        self.exit: Exited | None = None
        self._wanted: Resize | None = None
        #: Whether somebody waits for what is printed, and so sees a cut.
        self._reading = False

    async def __anext__(self) -> bytes:
        while not self._closed and self.exit is None:
            try:
                message = await self._receive()
            except ConnectionClosed as cut:
                await self._come_back(cut)
            except Conflict as refused:
                self.exit = await self._how_it_ended(refused)
            else:
                if isinstance(message, bytes):
                    self.cursor += len(message)
                    self._recover()
                    return message
                await self._note(self._read(message))
        await self.close()
        raise StopAsyncIteration

    async def _receive(self) -> str | bytes:
        self._reading = True
        try:
            return await (await self._connected()).recv()
        finally:
            self._reading = False

    async def type(self, keys: bytes) -> None:
        """Type. `Disconnected` if it is not known whether they arrived."""
        for start in range(0, len(keys), MAX_INPUT):
            socket = await self._open_connection()
            try:
                await socket.send(keys[start : start + MAX_INPUT])
            except ConnectionClosed:
                raise Disconnected(
                    "the terminal was cut while something was typed",
                    hint="Look whether it arrived before you type it again.",
                ) from None

    async def _open_connection(self) -> ClientConnection:
        """Give a connection that is open, as far as is known; after a cut, the next one."""
        while not self._closed:
            socket = await self._connected()
            if socket.state is State.OPEN:
                return socket
            if self._reading:
                # Who reads comes back with their place, once all is read that had come.
                await self._dropped.wait()
            else:
                await socket.wait_closed()
                await self._come_back(socket.protocol.close_exc)
        raise Disconnected("this terminal was let go")

    async def resize(self, cols: int, rows: int) -> None:
        """Tell what runs inside how large the window is; after a cut it is told again."""
        self._wanted = Resize(cols=cols, rows=rows)
        with contextlib.suppress(ConnectionClosed):
            socket = await self._open_connection()
            await socket.send(msgspec.json.encode(self._wanted).decode())

    # ── what the daemon says ─────────────────────────────────────────────────────────────────

    def _read(self, message: str) -> Told:
        try:
            return read_told(message)
        except UNREADABLE as error:
            raise InvalidResult(
                name_the_field(error, "what the daemon said of the terminal"),
                hint="Are the daemon and this program of the same version?",
            ) from None

    async def _note(self, told: Told) -> None:
        if isinstance(told, Exited):
            self.exit = told
            return
        self.lost += told.offset - self.cursor
        self.cursor = told.offset
        self.cols, self.rows = told.cols, told.rows
        if self._wanted is not None and (told.cols, told.rows) != (
            self._wanted.cols, self._wanted.rows,
        ):  # fmt: skip
            await self.resize(self._wanted.cols, self._wanted.rows)

    async def _how_it_ended(self, refused: Conflict) -> Exited:
        """Tell how it ended, if that is why we are not let in."""
        terminal = await self._calls.get(self._terminal_id)
        if terminal.status != "ended":
            raise refused
        return Exited(exit_code=terminal.exit_code, how=terminal.how or "it has ended")

    def _address(self) -> str:
        return f"/terminals/{self._terminal_id}?after={self.cursor}"

    def _why_over(self, code: int) -> AgorError | None:
        return NotFound(f"the terminal {self._terminal_id} is gone") if code == _GONE else None

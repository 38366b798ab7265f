"""A terminal over a WebSocket: what it prints and what is typed, as they are, in binary frames."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

import msgspec
from prometheus_client import Counter, Gauge

from agor.daemon.api.answers import Receive
from agor.daemon.api.forms import TerminalQuery
from agor.daemon.api.live import LEFT, Ending, come_back
from agor.daemon.api.outlet import Outlet
from agor.daemon.api.route import Connection, Request
from agor.daemon.api.websocket_protocol import WebSocketProtocol
from agor.daemon.metrics import Metrics
from agor.daemon.services.chunks import BINARY_FRAME, TEXT_FRAME, frame_head
from agor.daemon.services.terminals.attachment import Attachment
from agor.errors import Disconnected, RpcError
from agor.protocol.terminal_api import Exited, Resize, read_said
from agor.protocol.terminals import MAX_INPUT
from agor.protocol.validation import UNREADABLE

#: Bytes that the kernel holds of what was printed. What is behind them comes after Ctrl-C, too.
_SEND_BUFFER = 64 * 1024

#: Seconds in which the end of a shell should be heard of.
_NEWS = 5.0

ENDED: Final = Ending(1000, "the terminal has ended")
_NOT_UNDERSTOOD: Final = Ending(
    1003, "keys are binary frames; text frames are resize, with cols and rows from 1 to 10000"
)


async def attach(request: Request[TerminalQuery], connection: Connection) -> None:
    """Attach a client for as long as both want."""
    services, feeds = request.services, connection.feeds
    session_id = await services.terminals.session_of(request.id)
    with feeds.seat(request.who, session_id) as seat:
        attaching = services.terminals.attach(request.who, request.id, request.form.after)
        async with attaching as attachment:
            socket = WebSocketProtocol.of(connection.scope)
            socket.take_messages(MAX_INPUT)
            await connection.receive()
            await connection.send({"type": "websocket.accept"})
            outlet = Outlet.of(connection.scope)
            outlet.hold_little(_SEND_BUFFER)
            shown = Shown(attachment, outlet, feeds.settings.terminal_stall_timeout)
            ending = await feeds.follow(
                seat, shown, _hear(connection.receive, attachment, outlet, shown)
            )
    if ending is not LEFT:
        socket.farewell(ending.code, ending.reason)


class Shown:
    """What a terminal prints, as it is sent to one client."""

    def __init__(self, attachment: Attachment, outlet: Outlet, stall_timeout: float) -> None:
        self._attachment = attachment
        self._outlet = outlet
        self._stall_timeout = stall_timeout
        self._sent = 0

    @property
    def cursor(self) -> int:
        """How many bytes the client has, once it has read all that was sent."""
        return self._attachment.cursor + self._sent

    async def run(self) -> Ending:
        """Send until it has ended, no faster than the client reads."""
        while True:
            piece = await self._attachment.next()
            if not isinstance(piece, bytes):
                told = msgspec.json.encode(piece)
                self._outlet.write(frame_head(len(told), TEXT_FRAME) + told)
                if isinstance(piece, Exited):
                    return ENDED
                continue
            self._outlet.write(frame_head(len(piece), BINARY_FRAME) + piece)
            # Sent, and not taken before the client has room for more: others wait for that.
            self._sent = len(piece)
            await self._outlet.drain(self._stall_timeout)
            self._sent = 0
            self._attachment.took(len(piece))

    def figures(self, metrics: Metrics) -> tuple[Gauge, Counter]:
        """Count those who are attached."""
        return metrics.terminal_clients, metrics.terminal_cut_off


async def _hear(receive: Receive, attachment: Attachment, outlet: Outlet, shown: Shown) -> Ending:
    """Take what the client says, until it goes."""
    parts: set[asyncio.Task[Ending | None]] = {
        asyncio.create_task(_listen(receive, attachment)),
        asyncio.create_task(_press(attachment, shown)),
        asyncio.create_task(_wait_lost(outlet)),
    }
    going_on = parts
    try:
        while True:
            done, going_on = await asyncio.wait(going_on, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                if (ending := each.result()) is not None:
                    return ending
    except Disconnected:
        return come_back("the executor was not reached", shown.cursor)
    finally:
        for part in parts:
            part.cancel()
        await asyncio.wait(parts)


async def _listen(receive: Receive, attachment: Attachment) -> Ending:
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return LEFT
        if (keys := message.get("bytes")) is not None:
            await attachment.keyboard.type(bytes(keys))
        elif (said := _read(message)) is None:
            return _NOT_UNDERSTOOD
        else:
            # One whose shell has ended has no size any more; that it has is about to be told.
            with contextlib.suppress(RpcError):
                await attachment.resize(said.cols, said.rows)


def _read(message: dict[str, Any]) -> Resize | None:
    try:
        return read_said(message.get("text") or "")
    except UNREADABLE:
        return None


async def _press(attachment: Attachment, shown: Shown) -> Ending | None:
    """Bring keys in until they are not taken: most likely the shell has ended."""
    with contextlib.suppress(RpcError):
        await attachment.keyboard.run()
    # That is about to be told, behind what it had printed.
    await asyncio.sleep(_NEWS)
    return None if attachment.is_ending else come_back("keys are not taken", shown.cursor)


async def _wait_lost(outlet: Outlet) -> Ending:
    await outlet.wait_lost()
    return LEFT

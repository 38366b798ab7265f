"""One end of a conversation: how to ask, and the life of the connection.

Invariants:
- memory is bounded against an end that does not read: senders wait in `drain`, nothing is done for
  an end that does not read its answers, and one that takes nothing for `stall_timeout` is cut off;
- when the connection ends, every request of ours fails at once, every handler is cancelled, and
  `wait_closed` tells a clean end from a broken one.

After the other end has finished writing (`nc -N`, a pipe that ends) the peer stays until the last
answer is out, as long as somebody can read it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw

from agor.errors import (
    BrokenFrame,
    Disconnected,
    InvalidResult,
    Overloaded,
    PeerStalled,
    TimedOut,
)
from agor.protocol.envelope import CANCEL_REQUEST, CancelRequest, encode_lines
from agor.protocol.validation import UNREADABLE, Method, Notice, name_the_field
from agor.rpc.answers import encode_carefully
from agor.rpc.hangup import HangupWatch
from agor.rpc.inbound import Inbound
from agor.rpc.limits import Limits
from agor.rpc.outbound import Pending
from agor.rpc.routes import Routes
from agor.rpc.serving import Serving
from agor.rpc.writer import Writer

P = TypeVar("P")
R = TypeVar("R")

_CANCEL = Notice(CANCEL_REQUEST, CancelRequest)


class Peer(asyncio.Protocol):
    """A JSON-RPC 2.0 peer. `routes` is what it serves; `call` and `notify` are how it asks."""

    def __init__(self, routes: Routes, limits: Limits | None = None) -> None:
        # Nothing here needs an event loop: a peer can be made ahead, and connected in one.
        self._limits = limits or Limits()
        self._max_line = self._limits.max_line
        self._routes = routes
        self._pending = Pending(self._limits.max_in_flight)
        self._serving = Serving(routes, self._pending, self._limits.max_in_flight, self._settle)
        self._inbound = Inbound(
            self._serving, self._pending, self._limits, self._settle, self._pause_reading
        )
        self._answers = self._serving.answers
        # The event loop calls the receiving half directly: one call less for every read.
        self.data_received = self._inbound.receive  # type: ignore[method-assign]
        self._writer = Writer(self._limits, on_stall=self._cut_off)
        self._send = self._writer.send
        self._transport: asyncio.Transport | None = None
        self._ending: Disconnected | None = None
        self._hangup: HangupWatch | None = None
        self._close_timer: asyncio.TimerHandle | None = None
        self._closed = asyncio.Event()
        self._on_closed: list[Callable[[Disconnected], object]] = []

    # ── asking ───────────────────────────────────────────────────────────────────────────────

    async def call(self, method: Method[P, R], params: P, *, timeout: float | None = 30.0) -> R:
        """Ask, and wait for the answer.

        Raises the `RpcError` that the other end answered with, or `TimedOut`, `Overloaded`,
        `Disconnected`. A caller that is cancelled or has waited too long tells the other end so.
        """
        try:
            async with asyncio.timeout(timeout):
                await self.drain()
                raw = await self._ask(method, params)
        except TimeoutError:
            raise TimedOut(f"no answer to {method.name} within {timeout} s") from None
        try:
            return msgspec.json.decode(raw, type=method.result)
        except UNREADABLE as error:
            raise InvalidResult(name_the_field(error, f"{method.name} result")) from None

    async def _ask(self, method: Method[P, Any], params: P) -> Raw:
        if self._ending is not None:
            raise self._ending.again()
        request_id, answer = self._pending.open()
        try:
            self._settle()
            self._send(method.opening(request_id), params)
            return await answer
        finally:
            if self._pending.forget(request_id) and self._transport is not None:
                self._tell_cancelled(request_id)

    def notify(self, notice: Notice[P], params: P) -> None:
        """Tell. Between many of them use `drain`; past `max_unsent` bytes it is refused."""
        if self._answers:
            self._settle()
        self._send(notice.opening, params)

    def send_line(self, line: bytes) -> None:
        """Write a line that was encoded before."""
        if self._answers:
            self._settle()
        self._writer.send_line(line)

    async def drain(self) -> None:
        """Wait while the other end reads more slowly than we write."""
        await self._writer.drain()

    @property
    def congested(self) -> bool:
        """Whether a sender should wait in `drain` before it goes on."""
        return self._writer.congested

    @property
    def connected(self) -> bool:
        """Whether the other end can still ask and answer."""
        return self._transport is not None and self._ending is None

    # ── the end ──────────────────────────────────────────────────────────────────────────────

    async def wait_closed(self) -> Disconnected:
        """Wait for the end and tell what it was; `BrokenFrame` and `PeerStalled` are not clean."""
        await self._closed.wait()
        assert self._ending is not None
        return self._ending

    def when_closed(self, callback: Callable[[Disconnected], object]) -> None:
        """Have this called with the end, soon after it came."""
        self._on_closed.append(callback)
        if self._closed.is_set():
            self._conclude()

    async def close(self) -> None:
        """Cancel what is under way, write what is owed, and close; bounded in time."""
        if self._transport is None and self._ending is None:
            self._ending = Disconnected("never connected")
            self._conclude()
            return
        self._ending = self._ending or Disconnected("the connection was closed on this side")
        self._pending.fail_all(self._ending)
        # A handler may close its own connection; it must live to see it done.
        self._serving.spare(asyncio.current_task())
        if tasks := self._serving.cancel_all():
            await asyncio.wait(tasks, timeout=self._limits.close_timeout)
        self._writer.flush()
        if self._transport is not None:
            self._transport.close()
            loop = asyncio.get_running_loop()
            self._close_timer = loop.call_later(self._limits.close_timeout, self.abort)
        await self.wait_closed()

    async def finish(self, grace: float) -> None:
        """Close, but let what is under way end by itself first, for so long."""
        if grace and (tasks := self._serving.tasks):
            await asyncio.wait(tasks, timeout=grace)
        await self.close()

    def abort(self) -> None:
        """Drop the connection now, with what is unsent."""
        if self._transport is not None:
            self._transport.abort()

    # ── the transport's side ─────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin. Called by the event loop, as are all of the following."""
        # A cast, not a check: uvloop's transports do not inherit from asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._writer.attach(self._transport)

    def eof_received(self) -> bool:
        """The other end will say no more. True keeps the connection for the answers it awaits."""
        held = self._inbound.end()
        if self._ending is None:
            self._ending = (
                BrokenFrame(f"the connection ended in mid-line, after {held} bytes of it")
                if held
                else Disconnected(self._told("the other end closed the connection"))
            )
        self._pending.fail_all(self._ending)
        self._settle()
        sock = self._transport.get_extra_info("socket") if self._transport is not None else None
        if sock is not None and self._hangup is None:
            self._hangup = HangupWatch(sock.fileno(), self.abort)
        self._finish_if_done()
        # Closing is ours to do, when the last answer is out.
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over, whoever ended it."""
        if self._ending is None:
            self._ending = Disconnected(self._told(f"the connection was lost: {exc or 'closed'}"))
        if self._close_timer is not None:
            self._close_timer.cancel()
        if self._hangup is not None:
            self._hangup.close()
        self._transport = None
        self._writer.detach(self._ending)
        self._pending.fail_all(self._ending)
        self._serving.cancel_all()
        self._conclude()

    def pause_writing(self) -> None:
        """The other end is slow."""
        self._writer.congest()

    def resume_writing(self) -> None:
        """The other end has caught up."""
        self._writer.relieve()
        may_read = self._inbound.resume()
        if self._ending is not None:
            self._finish_if_done()
        elif may_read and self._transport is not None:
            self._transport.resume_reading()

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _settle(self) -> None:
        """Write the answers that are ready."""
        answers, limit = self._answers, self._max_line
        if not answers:
            return
        try:
            data = encode_lines(answers)
        except Exception:  # noqa: BLE001 - one of them cannot be encoded; the next lines say which
            data = b""
        laid_out = self._routes.raw_results and data.count(b"\n") != len(answers)
        if not data or len(data) > limit or laid_out:
            data = encode_carefully(answers, limit)
        answers.clear()
        writer = self._writer
        if writer.congested and writer.full:
            self._cut_off()
            return
        writer.write(data)
        if writer.congested:
            # It asks and does not read the answers: nothing more is done for it until it does.
            self._inbound.pause()
        if self._ending is not None:
            self._finish_if_done()

    def _conclude(self) -> None:
        assert self._ending is not None
        self._closed.set()
        callbacks, self._on_closed = self._on_closed, []
        for callback in callbacks:
            asyncio.get_running_loop().call_soon(callback, self._ending)

    def _told(self, ending: str) -> str:
        """Add the reason, if the other end gave one before it hung up."""
        complaint = self._serving.complaint
        return ending if complaint is None else f"{ending}, saying: {complaint}"

    def _pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def _tell_cancelled(self, request_id: int) -> None:
        # If this cannot be said the other end works in vain, which it must bear anyway.
        with contextlib.suppress(Disconnected, Overloaded):
            self._send(_CANCEL.opening, CancelRequest(request_id))

    def _cut_off(self) -> None:
        self._ending = self._ending or PeerStalled(
            f"the other end has not read for {self._limits.stall_timeout:g} s"
            if not self._writer.full
            else "the other end does not read its answers"
        )
        self.abort()

    def _finish_if_done(self) -> None:
        """Close after the last answer. Who reads slowly may; who does not at all is cut off."""
        if self._transport is not None and self._inbound.idle and not self._serving.busy:
            self._writer.flush()
            self._transport.close()

"""Two peers in any sequence of events: every call ends once, with its own answer or a right error.

The machine calls both ways, lets handlers answer in any order, fail, or be cancelled, sends
notifications and nonsense, and at some point breaks the connection. A small model says what each
call must end with.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agor.errors import AgorError, Disconnected, HandlerFailed, InternalError, Overloaded, TimedOut
from agor.rpc import Limits, memory
from tests.contract.drawn_lines import lines
from tests.contract.service import NOTE, WAIT, Name, Refusal, Service, Text
from tests.contract.waiting import turns

AT_ONCE = 4


@dataclass
class Call:
    """A call that has not ended yet."""

    name: str
    side: int
    task: asyncio.Task[str]


class TwoPeers(RuleBasedStateMachine):
    """The machine. Side 0 and side 1 are the two ends."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.services = (Service(), Service())
        self.runner.run(self._join())
        self.calls: list[Call] = []
        self.told: tuple[list[str], list[str]] = ([], [])
        self.count = 0
        self.broken = False

    async def _join(self) -> None:
        limits = Limits(max_in_flight=AT_ONCE)
        first, second = self.services
        self.peers = memory.pair(first.routes, second.routes, limits)

    def _run(self) -> None:
        self.runner.run(turns())

    def _open(self, side: int) -> list[Call]:
        return [call for call in self.calls if call.side == side]

    def _end(self, call: Call) -> None:
        self.calls.remove(call)

    def _handler(self, call: Call) -> Service:
        return self.services[1 - call.side]

    # ── what may happen ──────────────────────────────────────────────────────────────────────

    @rule(side=st.integers(0, 1))
    def call(self, side: int) -> None:
        self.count += 1
        name = f"call {self.count}"
        peer, before = self.peers[side], len(self._open(side))

        async def start() -> asyncio.Task[str]:
            task = asyncio.create_task(peer.call(WAIT, Name(name), timeout=None))
            await turns()
            return task

        task = self.runner.run(start())
        if self.broken:
            assert isinstance(task.exception(), Disconnected)
        elif before >= AT_ONCE:
            assert isinstance(task.exception(), Overloaded)
        else:
            assert not task.done()
            assert self.services[1 - side].started[name].is_set()
            self.calls.append(Call(name, side, task))

    @rule(side=st.integers(0, 1))
    def call_without_patience(self, side: int) -> None:
        self.count += 1
        name = f"call {self.count}"

        async def ask() -> BaseException | str:
            try:
                return await self.peers[side].call(WAIT, Name(name), timeout=0)
            except (Disconnected, Overloaded, TimedOut) as error:
                return error
            finally:
                await turns()

        ending = self.runner.run(ask())
        expected: type[AgorError] = TimedOut
        if self.broken:
            expected = Disconnected
        elif len(self._open(side)) >= AT_ONCE:
            expected = Overloaded
        assert type(ending) is expected
        started = self.services[1 - side].started[name].is_set()
        assert self.services[1 - side].cancelled[name].is_set() == started

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), how=st.sampled_from(["answer", "refuse", "bug"]))
    def finish(self, data: st.DataObject, how: str) -> None:
        call = data.draw(st.sampled_from(self.calls))
        gate = self._handler(call).gates[call.name]
        if how == "answer":
            gate.set_result(f"answer to {call.name}")
        else:
            gate.set_exception(Refusal(call.name) if how == "refuse" else ValueError(call.name))
        self._run()
        self._end(call)
        assert call.task.done()
        error = call.task.exception()
        if how == "answer":
            assert call.task.result() == f"answer to {call.name}"
        elif how == "refuse":
            assert isinstance(error, HandlerFailed)
            assert error.message == call.name
        else:
            assert isinstance(error, InternalError)
            assert call.name not in error.message

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(self.calls))
        call.task.cancel()
        self._run()
        self._end(call)
        assert call.task.cancelled()
        assert self._handler(call).cancelled[call.name].is_set()

    @precondition(lambda self: not self.broken)
    @rule(side=st.integers(0, 1), many=st.integers(1, 3))
    def tell(self, side: int, many: int) -> None:
        async def tell() -> None:
            for _ in range(many):
                self.count += 1
                self.told[side].append(f"note {self.count}")
                self.peers[side].notify(NOTE, Text(f"note {self.count}"))

        self.runner.run(tell())
        self._run()

    @precondition(lambda self: not self.broken)
    @rule(side=st.integers(0, 1), line=lines)
    def say_nonsense(self, side: int, line: bytes) -> None:
        # A whole line of anything: it may even be a request, an answer or a cancellation.
        if b"Request" in line or b'"result"' in line or b'"error"' in line or b'"note"' in line:
            return
        self._say(side, line)

    @precondition(lambda self: not self.broken)
    @rule(side=st.integers(0, 1), request_id=st.integers(900, 2**40), error=st.booleans())
    def answer_nothing(self, side: int, request_id: int, error: bool) -> None:
        member = b'"error":{"code":1,"message":"x"}' if error else b'"result":"stray"'
        self._say(side, b'{"jsonrpc":"2.0","id":%d,%s}' % (request_id, member))

    @precondition(lambda self: not self.broken and self.calls)
    @rule(data=st.data())
    def ask_again_under_the_same_id(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(self.calls))
        taken = self.peers[call.side]._pending._last_id
        for request_id in range(max(1, taken - AT_ONCE), taken + 1):
            self._say(call.side, b'{"jsonrpc":"2.0","id":%d,"method":"no_such"}' % request_id)

    @precondition(lambda self: not self.broken)
    @rule(side=st.integers(0, 1), how=st.sampled_from(["close", "abort"]))
    def break_the_connection(self, side: int, how: str) -> None:
        peer = self.peers[side]
        if how == "close":
            self.runner.run(peer.close())
        else:
            peer.abort()
        self._run()
        self.broken = True
        for call in self.calls:
            assert call.task.done()
            code = getattr(call.task.exception(), "code", None)
            # Who closes in order answers what it cancels; all else is cut.
            may_be_told = how == "close" and call.side != side
            assert code == "disconnected" or (may_be_told and code == "cancelled")
            assert self._handler(call).cancelled[call.name].is_set()
        self.calls.clear()

    def _say(self, side: int, line: bytes) -> None:
        async def say() -> None:
            self.peers[side].send_line(line + b"\n")

        self.runner.run(say())
        self._run()

    # ── what always holds ────────────────────────────────────────────────────────────────────

    @invariant()
    def calls_end_only_when_something_ended_them(self) -> None:
        assert not any(call.task.done() for call in self.calls)

    @invariant()
    def nothing_is_pending_but_the_calls_that_are_open(self) -> None:
        for side, peer in enumerate(self.peers):
            assert len(peer._pending) == len(self._open(side))
            assert peer._serving.busy == bool(self._open(1 - side))

    @invariant()
    def every_note_arrived_once_and_in_order(self) -> None:
        assert self.services[1].notes == self.told[0]
        assert self.services[0].notes == self.told[1]

    def teardown(self) -> None:
        if not self.broken:
            self.break_the_connection(0, "close")

        async def leftovers() -> set[asyncio.Task[object]]:
            return asyncio.all_tasks() - {asyncio.current_task()}

        assert self.runner.run(leftovers()) == set()
        assert all(
            isinstance(self.runner.run(peer.wait_closed()), Disconnected) for peer in self.peers
        )
        self.runner.close()


TwoPeers.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=30,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
TestTwoPeers = TwoPeers.TestCase

"""A terminal between its executor and its clients: what overtakes what, and what is cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from tests.contract.waiting import soon, turns

from agor.daemon.services.terminals.attachment import Attachment
from agor.daemon.services.terminals.keyboard import Keyboard
from agor.daemon.services.terminals.live import LiveTerminal
from agor.daemon.store.rows import TerminalRow
from agor.errors import Conflict, Disconnected, InvalidParams
from agor.execution import ExecutionEnvironment
from agor.protocol.terminal_api import Attached
from agor.protocol.terminals import (
    MAX_INPUT,
    WINDOW,
    AttachTerminalResult,
    ReportTerminalParams,
)

ROW = TerminalRow(
    terminal_id="t", session_id="s", user_id="u", executor_id="e", shell="/bin/sh", cwd="/",
    status="open", created_at=1,
)  # fmt: skip


def report(offset: int, data: bytes, exit_code: int | None = None) -> ReportTerminalParams:
    return ReportTerminalParams(terminal_id="t", offset=offset, data=data, exit_code=exit_code)


class FakeTerminals:
    """The executor's side, as a test has it answer."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.answer: Callable[[int], Any] = lambda after: AttachTerminalResult(
            offset=0, data=b"", cols=80, rows=24
        )
        self.detached = 0

    async def attach(self, _: str, after: int) -> AttachTerminalResult:
        self.asked.append(after)
        told = self.answer(after)
        answer: AttachTerminalResult = await told if asyncio.iscoroutine(told) else told
        return answer

    def detach(self, _: str) -> None:
        self.detached += 1

    def acknowledge(self, _: str, place: int) -> None:
        pass


class FakeEnvironment:
    """An executor whose connection can be cut."""

    def __init__(self) -> None:
        self.terminals = FakeTerminals()
        self.cut = asyncio.Event()
        self.again = asyncio.Event()
        self.info = None

    async def wait_disconnected(self) -> None:
        await self.cut.wait()
        self.cut.clear()

    async def wait_connected(self) -> None:
        await self.again.wait()
        self.again.clear()


class FakeKeeper:
    """Notes what becomes of it."""

    def __init__(self) -> None:
        self.exits: list[int] = []

    def shell_ended(self, _: LiveTerminal, exit_code: int) -> None:
        self.exits.append(exit_code)

    def abandoned(self, _: LiveTerminal) -> None:
        raise AssertionError("nobody waits so long here")


class Stage:
    """All of them together."""

    def __init__(self) -> None:
        self.environment = FakeEnvironment()
        self.there = self.environment.terminals
        self.keeper = FakeKeeper()
        environment = cast("ExecutionEnvironment", self.environment)
        self.terminal = LiveTerminal(ROW, environment, self.keeper, 1000)


@pytest.fixture
async def stage():
    made = Stage()
    yield made
    made.terminal.let_go()


async def taken(attachment: Attachment) -> tuple[int, bytes]:
    """Where what a client has begins, and what it is, as far as it has come."""
    begin, seen = 0, b""
    while attachment._queue._pieces:
        piece = await attachment.next()
        if isinstance(piece, Attached):
            assert not seen
            begin = piece.offset
        elif isinstance(piece, bytes):
            seen += piece
            attachment.took(len(piece))
    return begin, seen


async def test_what_comes_before_the_answer_that_it_follows_waits_for_it(stage: Stage):
    def overtaken(after: int) -> AttachTerminalResult:
        stage.terminal.take(report(5, b"67"))
        stage.terminal.take(report(7, b"8", 3))
        return AttachTerminalResult(offset=0, data=b"12345", cols=80, rows=24)

    stage.there.answer = overtaken
    attachment = await stage.terminal.attach(2)
    assert await taken(attachment) == (2, b"345678")
    assert stage.keeper.exits == [3]


async def test_who_comes_later_gets_what_is_kept_and_the_others_nothing_twice(stage: Stage):
    stage.there.answer = lambda after: AttachTerminalResult(offset=0, data=b"abc", cols=80, rows=24)
    first = await stage.terminal.attach(0)
    stage.terminal.take(report(3, b"de"))

    def again(after: int) -> AttachTerminalResult:
        assert after == 1, "from the place of who is furthest behind"
        stage.terminal.take(report(5, b"f"))
        return AttachTerminalResult(offset=1, data=b"bcdefg", cols=80, rows=24)

    stage.there.answer = again
    second = await stage.terminal.attach(1)
    stage.terminal.take(report(7, b"h"))
    assert await taken(first) == (0, b"abcdefgh")
    assert await taken(second) == (1, b"bcdefgh")


async def test_the_executor_is_let_go_with_the_last_client_and_not_while_one_comes(stage: Stage):
    first = await stage.terminal.attach(0)
    coming = asyncio.Event()

    async def slowly() -> AttachTerminalResult:
        await coming.wait()
        return AttachTerminalResult(offset=0, data=b"", cols=80, rows=24)

    stage.there.answer = lambda after: slowly()
    attaching = asyncio.create_task(stage.terminal.attach(0))
    await turns()
    first.leave()
    assert stage.there.detached == 0, "it would send nothing to who comes"
    coming.set()
    second = await soon(attaching)
    second.leave()
    assert stage.there.detached == 1


async def test_who_goes_before_they_are_let_in_costs_the_others_nothing(stage: Stage):
    first = await stage.terminal.attach(0)
    coming = asyncio.Event()

    async def slowly() -> AttachTerminalResult:
        await coming.wait()
        return AttachTerminalResult(offset=0, data=b"seen by all", cols=80, rows=24)

    stage.there.answer = lambda after: slowly()
    attaching = asyncio.create_task(stage.terminal.attach(0))
    await turns()
    attaching.cancel()
    coming.set()
    with pytest.raises(asyncio.CancelledError):
        await attaching
    await turns()
    assert len(stage.terminal.audience) == 1
    assert await taken(first) == (0, b"seen by all")


async def test_after_a_cut_it_goes_on_where_it_was(stage: Stage):
    client = await stage.terminal.attach(0)
    stage.terminal.take(report(0, b"before "))

    def after_the_cut(after: int) -> AttachTerminalResult:
        assert after == 7
        return AttachTerminalResult(offset=7, data=b"meanwhile", cols=80, rows=24)

    stage.there.answer = after_the_cut
    stage.environment.cut.set()
    stage.environment.again.set()
    await turns()
    stage.terminal.take(report(16, b" after"))
    assert await taken(client) == (0, b"before meanwhile after")


async def test_who_cannot_be_attached_leaves_it_as_it_was(stage: Stage):
    def fails(after: int) -> AttachTerminalResult:
        raise Disconnected("gone for now")

    stage.there.answer = fails
    with pytest.raises(Disconnected):
        await stage.terminal.attach(0)
    assert (len(stage.terminal.audience), stage.there.detached) == (0, 1)

    def beyond(after: int) -> AttachTerminalResult:
        raise InvalidParams("params.after: it has printed less")

    stage.there.answer = beyond
    with pytest.raises(Conflict, match="after=9"):
        await stage.terminal.attach(9)


async def test_more_than_a_window_while_it_is_attached_to_is_a_breach(stage: Stage):
    refused: list[InvalidParams] = []

    def floods(after: int) -> AttachTerminalResult:
        for number in range(5):
            try:
                stage.terminal.take(report(number * WINDOW, bytes(WINDOW)))
            except InvalidParams as error:
                refused.append(error)
        return AttachTerminalResult(offset=0, data=b"", cols=80, rows=24)

    stage.there.answer = floods
    with pytest.raises(Disconnected):
        await stage.terminal.attach(0)
    assert refused
    assert len(stage.terminal.audience) == 0


async def test_keys_arrive_in_order_and_no_more_wait_than_there_is_room_for():
    pressed: list[bytes] = []
    let = asyncio.Event()

    async def press(keys: bytes) -> None:
        await let.wait()
        pressed.append(keys)

    keyboard = Keyboard(press)
    running = asyncio.create_task(keyboard.run())
    typed = [bytes([number]) * MAX_INPUT for number in range(8)]

    async def type_all() -> None:
        for keys in typed:
            await keyboard.type(keys)

    typing = asyncio.create_task(type_all())
    await turns()
    assert not typing.done(), "whoever types waits"
    let.set()
    await soon(typing)
    while b"".join(pressed) != b"".join(typed):
        await asyncio.sleep(0)
    running.cancel()

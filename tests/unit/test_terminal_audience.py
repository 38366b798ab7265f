"""Those who look at a terminal: whatever comes and goes, each has every byte of it once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agor.daemon.services.terminals.audience import ACK_BYTES, Audience, Queue
from agor.errors import Conflict, InvalidParams, PeerStalled
from agor.protocol.terminal_api import Attached, Exited
from agor.protocol.terminals import KEPT, WINDOW, AttachTerminalResult

STEP = 3000


def printed(begin: int, end: int) -> bytes:
    """What the terminal prints: every place has its own look, nearly."""
    return bytes((place * 7919 // 251) % 256 for place in range(begin, end))


class Client:
    """Somebody who looks, and what they have got."""

    def __init__(self, queue: Queue, after: int) -> None:
        self.queue = queue
        self.after = after
        self.seen = b""
        self.begin: int | None = None
        self.exit: Exited | None = None

    async def take(self, audience: Audience) -> None:
        """Take one piece, if there is one."""
        if not self.queue._pieces:
            return
        piece = await self.queue.next()
        if isinstance(piece, Attached):
            assert self.begin is None, "nothing may be lost here"
            self.begin = piece.offset
        elif isinstance(piece, Exited):
            self.exit = piece
        else:
            self.seen += piece
            audience.took(self.queue, len(piece))

    async def take_all(self, audience: Audience) -> None:
        while self.queue._pieces:
            await self.take(audience)

    @property
    def end(self) -> int:
        assert self.begin is not None
        return self.begin + len(self.seen)


class World:
    """An executor that keeps to its window, and the audience."""

    def __init__(self) -> None:
        self.end = 0
        self.sent = 0
        self.acknowledged = 0
        self.audience = Audience(self._acknowledge)
        self.clients: list[Client] = []

    def _acknowledge(self, place: int) -> None:
        assert place <= self.sent, "what was not sent cannot have been read"
        assert place <= min(client.queue.taken for client in self.clients)
        self.acknowledged = max(self.acknowledged, place)

    def print(self, size: int) -> None:
        """Print as much as the window allows, or all of it while nobody looks."""
        if self.clients:
            size = min(size, self.acknowledged + WINDOW - self.sent)
        begin, self.end = self.end, self.end + size
        if self.clients and size:
            self.sent = self.end
            self.audience.take(begin, printed(begin, self.end))

    def told(self, after: int) -> AttachTerminalResult:
        offset = max(after, self.end - KEPT, 0)
        self.sent = self.acknowledged = self.end
        data = printed(offset, self.end)
        return AttachTerminalResult(offset=offset, data=data, cols=80, rows=24)

    def join(self, share: float) -> None:
        after = int(self.end * share)
        told = self.told(min(after, self.audience.place) if self.clients else after)
        self.audience.begin(told)
        self.clients.append(Client(self.audience.admit(after, told), after))

    def leave(self, client: Client) -> None:
        self.clients.remove(client)
        self.audience.leave(client.queue)


STEPS = st.one_of(
    st.tuples(st.just("print"), st.integers(1, 40 * STEP)),
    st.tuples(st.just("join"), st.floats(0, 1)),
    st.tuples(st.just("take"), st.integers(0, 7)),
    st.tuples(st.just("take all"), st.integers(0, 7)),
    st.tuples(st.just("leave"), st.integers(0, 7)),
    st.tuples(st.just("again"), st.just(0)),
)


async def play(steps: list[tuple[str, Any]]) -> None:
    world, gone = World(), []
    for what, much in steps:
        chosen = (
            world.clients[much % len(world.clients)] if what != "join" and world.clients else None
        )
        if what == "print":
            world.print(much)
        elif what == "join" and len(world.clients) < 4:
            world.join(much)
        elif what == "again" and chosen:
            world.audience.begin(world.told(world.audience.place))
        elif chosen and what.startswith("take"):
            try:
                await (chosen.take if what == "take" else chosen.take_all)(world.audience)
            except PeerStalled:
                world.leave(chosen)
        elif chosen and what == "leave":
            gone.append(chosen)
            world.leave(chosen)
    for client in world.clients:
        try:
            await client.take_all(world.audience)
        except PeerStalled:
            continue
        assert client.end == world.end, "everything that was printed has come"
    for client in gone + world.clients:
        if client.begin is not None:
            assert client.begin >= client.after
            assert client.seen == printed(client.begin, client.end), "in order, each byte once"


@given(st.lists(STEPS, max_size=40))
@settings(max_examples=150, deadline=None)
def test_whoever_comes_and_goes_each_has_every_byte_from_their_place_on_once(steps):
    asyncio.run(play(steps))


async def joined(world: World) -> Client:
    world.join(0)
    client = world.clients[-1]
    await client.take_all(world.audience)
    return client


async def test_the_slowest_decides_how_far_the_program_may_go_on():
    world = World()
    quick, slow = await joined(world), await joined(world)
    for _ in range(20):
        world.print(WINDOW)
        await quick.take_all(world.audience)
    assert world.end == WINDOW, "it waits for the slow one"
    await slow.take_all(world.audience)
    world.print(WINDOW)
    assert world.end == 2 * WINDOW
    world.leave(slow)
    await quick.take_all(world.audience)
    world.print(WINDOW)
    assert world.end == 3 * WINDOW, "and not for one that has left"


async def test_the_executor_is_not_woken_for_every_key():
    told: list[int] = []
    audience = Audience(told.append)
    world = World()
    world.audience = audience
    client = await joined(world)
    for _ in range(ACK_BYTES - 1):
        world.print(1)
    await client.take_all(audience)
    assert told == []
    world.print(1)
    await client.take_all(audience)
    assert told == [ACK_BYTES]


async def test_what_is_missing_is_told_with_the_place_where_it_goes_on():
    world = World()
    client = await joined(world)
    world.audience.take(500, b"later")
    piece = await client.queue.next()
    assert isinstance(piece, Attached)
    assert piece.offset == 500
    assert await client.queue.next() == b"later"


async def test_who_is_behind_by_too_much_is_cut_off_and_the_others_are_not():
    world = World()
    quick, slow = await joined(world), await joined(world)
    for _ in range(10):
        # Others who come have the executor send on.
        world.audience.begin(world.told(world.audience.place))
        world.print(WINDOW)
        await quick.take_all(world.audience)
    with pytest.raises(PeerStalled):
        await slow.take(world.audience)
    assert quick.seen == printed(0, quick.end)


async def test_an_executor_that_does_not_keep_to_its_window_is_not_put_up_with():
    world = World()
    await joined(world)
    for number in range(4):
        world.audience.take(number * WINDOW, bytes(WINDOW))
    with pytest.raises(InvalidParams):
        world.audience.take(4 * WINDOW, bytes(WINDOW))


async def test_a_place_beyond_all_that_was_printed_is_refused():
    world = World()
    world.end = 100
    told = world.told(0)
    world.audience.begin(told)
    with pytest.raises(Conflict, match="after=101"):
        world.audience.admit(101, told)


async def test_the_end_comes_behind_all_that_was_printed():
    world = World()
    client = await joined(world)
    world.print(STEP)
    world.audience.end(Exited(exit_code=3, how="so"))
    await client.take_all(world.audience)
    assert client.seen == printed(0, STEP)
    assert client.exit is not None
    assert client.exit.exit_code == 3

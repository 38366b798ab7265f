"""Who keeps up with a feed: whoever comes, goes or stops reading, each has every event once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agor.daemon.services import ring as ring_of
from agor.daemon.services.chunks import Chunk, Spelling
from agor.daemon.services.ring import Ring

FEW, MOST_TURNS, MOST_KEPT = ring_of._FEW, ring_of._MOST_TURNS, ring_of._MOST_KEPT


def one_way(chunk: Chunk) -> bytes:
    return b"".join(b"<%b>\n" % body for body in chunk.bodies)


def another_way(chunk: Chunk) -> bytes:
    return b"".join(b"[%b]\n" % body for body in chunk.bodies)


def no_way(chunk: Chunk) -> bytes:
    raise ValueError("a bug")


BRACKETS: dict[Spelling, str] = {one_way: "<>", another_way: "[]"}


class Sink:
    """A client's end. It may stop reading, be gone, or be broken."""

    def __init__(self) -> None:
        self.when_congested: Callable[[], None] | None = None
        self.congested = False
        self.fault: Exception | None = None
        self.aborted = False
        self.sends: list[bytes] = []
        self.unread = 0

    def push(self, data: bytes) -> None:
        if self.fault is not None:
            raise self.fault
        self.sends.append(data)
        self.unread += self.congested
        if self.congested:
            self.complain()

    def complain(self) -> None:
        if self.when_congested is not None:
            self.when_congested()

    def write(self, data: bytes) -> None:
        raise AssertionError("members are pushed to")

    async def drain(self) -> None:
        raise AssertionError("members are pushed to")

    def abort(self) -> None:
        self.aborted = True


class Member:
    """Somebody who follows."""

    def __init__(self, cursor: int, spelling: Spelling = one_way) -> None:
        self.sink = Sink()
        self.spelling = spelling
        self.began = cursor
        self.cursor = cursor
        self.woken = False

    def wake(self) -> None:
        self.woken = True

    @property
    def seen(self) -> list[int]:
        sequences = []
        for line in b"".join(self.sink.sends).decode().split():
            assert line[0] + line[-1] == BRACKETS[self.spelling]
            sequences.append(int(line[1:-1].split("-")[0]))
        return sequences


class World:
    """A feed and its ring."""

    def __init__(self, count: int = 0) -> None:
        self.ring = Ring(0)
        self.bodies: list[bytes] = []
        self.members = [self.join() for _ in range(count)]

    @property
    def last(self) -> int:
        return len(self.bodies)

    def join(self, spelling: Spelling = one_way) -> Member:
        member = Member(self.last, spelling)
        self.ring.admit(member)
        return member

    def come_back(self, member: Member) -> None:
        """One that was dismissed has read the rest by itself."""
        if member.woken and member.sink.fault is None:
            rest = self.bodies[member.cursor :]
            member.sink.sends.append(member.spelling(Chunk(member.cursor + 1, rest)))
            member.woken = member.sink.congested = False
            member.sink.unread = 0
            self.ring.admit(member)

    def publish(self, count: int = 1, size: int = 0) -> None:
        first = self.last + 1
        bodies = [b"%d-%b" % (number, b"x" * size) for number in range(first, first + count)]
        self.bodies += bodies
        self.ring.tell(Chunk(first, bodies))

    def told(self) -> int:
        """Count those who have all."""
        return sum(member.seen[-1:] == [self.last] for member in self.members)

    async def settle(self) -> None:
        """Have as many turns as it takes."""
        for _ in range(MOST_TURNS + 2):
            await asyncio.sleep(0)


async def test_a_few_hear_it_at_once() -> None:
    world = World(FEW)
    world.publish(3)
    assert all(member.seen == [1, 2, 3] for member in world.members)


async def test_others_have_a_turn_before_all_of_many_are_told() -> None:
    world = World(10 * FEW)
    world.publish()
    # What comes now waits for the turns that are coming, and adds none.
    world.publish()
    told = [world.told()]
    while told[-1] < len(world.members):
        await asyncio.sleep(0)
        told.append(world.told())
    assert told == [FEW * turn for turn in range(10)] + [10 * FEW]


async def test_the_last_of_very_many_does_not_wait_for_more_than_a_few_turns() -> None:
    world = World(50 * FEW)
    world.publish()
    for _ in range(MOST_TURNS):
        await asyncio.sleep(0)
    assert world.told() == 50 * FEW


async def test_what_comes_meanwhile_goes_with_the_same_send() -> None:
    world = World(3 * FEW)
    world.publish()
    world.publish()
    await world.settle()
    assert all(member.seen == [1, 2] for member in world.members)
    sends = [len(member.sink.sends) for member in world.members]
    assert sends == [2] * FEW + [1] * 2 * FEW


async def test_whoever_is_told_later_is_told_more() -> None:
    world = World(4 * FEW)
    for _ in range(3):
        world.publish()
        await asyncio.sleep(0)
    assert [member.sink.sends.count(b"<1->\n<2->\n<3->\n") for member in world.members] == (
        [0] * 3 * FEW + [1] * FEW
    )
    await world.settle()
    assert all(member.seen == [1, 2, 3] for member in world.members)


async def test_the_same_is_spelled_once() -> None:
    world = World(3 * FEW)
    chunks = []

    def counting(chunk: Chunk) -> bytes:
        chunks.append(chunk)
        return one_way(chunk)

    for member in world.members:
        world.ring.dismiss(member)
        member.spelling = counting
        world.ring.admit(member)
    world.publish()
    world.publish()
    await world.settle()
    assert [(chunk.first, chunk.last) for chunk in chunks] == [(1, 1), (1, 2), (1, 2), (2, 2)]
    assert chunks[1] is chunks[2]


async def test_little_is_kept_for_those_whose_turn_is_not_yet() -> None:
    world = World(3 * FEW)
    world.publish(size=MOST_KEPT // 2)
    assert world.members[-1].seen == []
    world.publish(size=MOST_KEPT // 2)
    assert all(member.seen == [1, 2] for member in world.members)
    world.publish()
    assert world.ring._kept_bytes < 10
    await world.settle()
    assert world.ring._kept_bytes == 0
    assert world.ring._whole is None


async def test_what_is_kept_is_counted_as_it_goes() -> None:
    world = World(3 * FEW)
    world.publish(size=MOST_KEPT * 2 // 5)
    world.publish(size=MOST_KEPT * 2 // 5)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    # All have the first; the second is kept for those who began.
    world.publish(size=MOST_KEPT * 3 // 5)
    assert world.told() == 3 * FEW


async def test_nothing_is_kept_for_those_who_have_left() -> None:
    world = World(FEW + 1)
    world.publish()
    world.ring.dismiss(world.members[-1])
    assert world.ring._kept_bytes == 0


async def test_all_that_read_too_slowly_are_dismissed_together() -> None:
    world = World(FEW)
    for member in world.members[:3]:
        member.sink.congested = True
    world.publish()
    assert [member.woken for member in world.members] == [True] * 3 + [False] * (FEW - 3)


async def test_who_was_too_slow_once_may_stay_when_back() -> None:
    world = World(1)
    [member] = world.members
    member.sink.complain()
    world.ring.dismiss(member)
    world.come_back(member)
    world.publish()
    assert not member.woken


async def test_who_comes_in_the_middle_of_a_round_hears_what_comes_next() -> None:
    world = World(3 * FEW)
    world.publish()
    late = world.join()
    world.publish()
    await world.settle()
    assert late.seen == [2]


async def test_who_leaves_before_their_turn_goes_on_from_what_they_have() -> None:
    world = World(3 * FEW)
    world.publish()
    first, last = world.members[0], world.members[-1]
    world.ring.dismiss(first)
    world.ring.dismiss(last)
    assert (first.cursor, last.cursor) == (1, 0)
    assert first.woken
    assert last.woken
    await world.settle()
    assert last.seen == []


async def test_at_its_end_all_are_told_the_rest() -> None:
    world = World(3 * FEW)
    world.publish()
    world.publish()
    world.ring.close()
    assert all(member.seen == [1, 2] and member.woken for member in world.members)
    assert len(world.ring) == 0


async def test_places_that_were_left_are_taken_again() -> None:
    world = World(10 * FEW)
    for number, member in enumerate(world.members):
        if number % FEW:
            world.ring.dismiss(member)
    for _ in range(5 * FEW):
        world.join()
    assert len(world.ring._segments) == 10


async def test_one_that_cannot_be_told_is_hung_up_on_and_the_others_are_told() -> None:
    world = World(2 * FEW)
    broken = world.members[0], world.members[FEW]
    for member in broken:
        member.sink.fault = TypeError("a bug")
    world.publish()
    await world.settle()
    assert [member.sink.aborted for member in world.members].count(True) == 2
    assert world.told() == 2 * FEW - 2


async def test_those_that_cannot_be_spelled_to_go_on_by_themselves() -> None:
    world = World(2 * FEW)
    odd = [world.join(no_way) for _ in range(2 * FEW)]
    world.members += [world.join() for _ in range(2 * FEW)]
    world.publish()
    await world.settle()
    assert all(member.woken and member.cursor == 0 for member in odd)
    assert world.told() == 4 * FEW
    world.join(no_way)
    world.publish()
    world.ring.close()
    assert len(world.ring) == 0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.sampled_from([one_way, another_way])),
        st.tuples(st.just("join many"), st.integers(1, 3 * FEW)),
        st.tuples(st.just("publish"), st.integers(1, 4)),
        st.tuples(st.just("publish large"), st.integers(1, 2)),
        st.tuples(st.just("turn"), st.none()),
        st.tuples(
            st.sampled_from(["leave", "stop reading", "complain", "vanish", "come back"]),
            st.integers(0, 100),
        ),
    ),
    max_size=40,
)


def happen_to(member: Member, world: World, what: str) -> None:
    if what == "leave":
        world.ring.dismiss(member)
    elif what == "stop reading":
        member.sink.congested = True
    elif what == "complain":
        member.sink.congested = True
        member.sink.complain()
    elif what == "vanish":
        member.sink.fault = RuntimeError("closed")
    else:
        world.come_back(member)


async def play(steps: list[tuple[str, Any]], closes: bool) -> World:
    world = World()
    for step, detail in steps:
        if step == "join":
            world.members.append(world.join(detail))
        elif step == "join many":
            world.members += [world.join() for _ in range(detail)]
        elif step == "publish":
            world.publish(detail)
        elif step == "publish large":
            world.publish(detail, MOST_KEPT // 3)
        elif step == "turn":
            await asyncio.sleep(0)
        elif world.members:
            happen_to(world.members[detail % len(world.members)], world, step)
    if closes:
        world.ring.close()
    await world.settle()
    return world


@settings(max_examples=300, deadline=None)
@given(STEPS, st.booleans())
def test_each_has_every_event_once_and_in_order(steps: list[tuple[str, Any]], closes: bool) -> None:
    world = asyncio.run(play(steps, closes))
    for member in world.members:
        if member.sink.fault is None:
            end = member.cursor if member.woken else world.last
            assert end == member.began + len(member.seen)
            assert member.seen == list(range(member.began + 1, end + 1))
        # Who stopped reading was sent once more, to find it out.
        assert member.sink.unread <= 1
        assert (member.sink.when_congested is None) == member.woken
    staying = sum(not member.woken for member in world.members)
    assert len(world.ring) == (0 if closes else staying)
    assert not world.ring._kept
    assert world.ring._kept_bytes == 0
    assert not world.ring._turn_comes

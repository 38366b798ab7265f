"""What a terminal prints: in order, without gap or repetition, whoever comes and goes."""

from __future__ import annotations

import base64
import random

import pytest

from agor.errors import RpcError
from agor.protocol.terminals import KEPT, WINDOW
from tests.integration.terminals.counting import BEGIN, COUNT, LINE, LINES, check, counted
from tests.integration.terminals.screens import cut, looking_at
from tests.integration.wire import Wire, request, wire


async def test_a_stream_arrives_whole_through_small_steps_and_many_hands(executor, side, tmp_path):
    """Two connections take it from each other at random places, and acknowledge bit by bit."""
    chance = random.Random(1)
    async with looking_at(executor) as other:
        one = await side.run(tmp_path, COUNT)
        screens = [one, other.screen(one.id)]
        for screen in screens:
            screen.acknowledges = False
        await one.type("\n")
        end = BEGIN + LINES * LINE
        have, holder = BEGIN, one
        while have < end:
            holder = chance.choice(screens)
            assert (await holder.attach(have)).offset == have
            for _ in range(chance.randrange(6)):
                holder.acknowledge(chance.randint(have, holder.next))
                target = min(end, holder.next + chance.randint(1, WINDOW // 4))
                holder.acknowledge()
                await holder.until_next(target)
            check(holder, have)
            have = holder.next
        await holder.attach(have)
        assert await holder.ended() == 0
        assert holder.next == end


async def test_a_connection_that_is_cut_misses_nothing_when_it_comes_back(executor, tmp_path):
    step = 2000
    chance = random.Random(2)
    # No more than is kept, between two keys.
    program = f"n=1; while read x; do seq -f %07g $n $((n + {step - 1})); n=$((n + {step})); done"
    have, turns = BEGIN, 20
    async with looking_at(executor) as side:
        first = await side.run(tmp_path, program)
        terminal_id = first.id
        await cut(side)
    for turn in range(turns):
        async with looking_at(executor) as side:
            screen = side.screen(terminal_id)
            assert (await screen.attach(have)).offset == have
            await screen.type("\n")
            whole = BEGIN + (turn + 1) * step * LINE
            await screen.until_next(chance.randint(have + 1, whole))
            check(screen, have)
            # As it stands at this very moment, with more of it under way.
            have = screen.next
            await cut(side)
    async with looking_at(executor) as side:
        screen = side.screen(terminal_id)
        await screen.attach(have)
        await screen.until_next(BEGIN + turns * step * LINE)
        check(screen, have)
        await screen.close()


async def test_who_was_away_for_too_long_is_told_where_what_is_kept_begins(executor, tmp_path):
    async with looking_at(executor) as side:
        screen = await side.run(tmp_path, COUNT)
        await screen.type("\n")
        await screen.until_next(BEGIN + 10_000)
        await cut(side)
    async with looking_at(executor) as side:
        # It did not wait for anybody, and its end is told to the daemon.
        screen = side.screen(screen.id)
        end = BEGIN + LINES * LINE
        screen.begin = screen.next = end
        if (await side.greet()).terminals[0].exit_code is None:
            assert await screen.ended() == 0
        answer = await screen.attach(20_000)
        assert (answer.offset, len(answer.data), answer.exit_code) == (end - KEPT, KEPT, 0)
        check(screen, end - KEPT)


async def test_reports_go_on_exactly_where_the_answer_ended(executor, side, tmp_path):
    """Over the wire as it is: between the answer and the first report, nothing else was printed."""
    screen = await side.run(tmp_path, "read x; exec yes")
    await screen.type("\n")
    await screen.until_next(BEGIN + WINDOW)
    with wire(executor.path) as connection:
        for number in range(40):
            _attach_and_read(connection, screen.id, number)
    await screen.close()


def _attach_and_read(connection: Wire, terminal_id: str, number: int) -> None:
    connection.send(request(number, "attach_terminal", {"terminal_id": terminal_id}))
    answer = connection.read_until(id=number)["result"]
    place = answer["offset"] + len(base64.b64decode(answer["data"]))
    for _ in range(3):
        message = connection.read()
        assert message["method"] == "report_terminal"
        assert message["params"]["offset"] == place
        place += len(base64.b64decode(message["params"]["data"]))


async def test_a_detached_terminal_goes_on_where_it_is_attached_again(side, tmp_path):
    screen = await side.run(tmp_path, "while read x; do echo $x; done")
    screen.detach()
    await screen.type("unseen\n")
    await screen.type("sent to nobody\n")
    await side.ping()
    have = screen.next
    assert have == BEGIN
    await screen.attach(have)
    await screen.sees("unseen\nsent to nobody\n")
    await screen.type("seen\n")
    assert await screen.sees("seen\n") == b""


async def test_a_detach_from_elsewhere_is_not_ours(executor, side, tmp_path):
    async with looking_at(executor) as other:
        screen = await side.run(tmp_path, "exec cat")
        other.screen(screen.id).detach()
        await other.ping()
        await screen.type("hello\n")
        await screen.sees("hello\n")


async def test_a_place_that_was_not_printed_yet_is_refused(side, tmp_path):
    screen = await side.run(tmp_path, "exec cat")
    with pytest.raises(RpcError) as refused:
        await screen.attach(BEGIN + 1)
    assert refused.value.code == "invalid_params"
    assert "after" in refused.value.message
    assert (await screen.attach(BEGIN)).data == b""


async def test_lines_may_be_shorter_than_what_is_kept(start, tmp_path):
    """An answer that does not fit into a line is followed by reports, and the end by both."""
    executor = start("--max-line-bytes", "20000")
    async with looking_at(executor) as side:
        screen = await side.run(tmp_path, f"seq -f %07g 1 {KEPT // LINE // 2}; exit 2")
        await screen.ended()
        answer = await screen.attach(BEGIN)
        assert (answer.offset, answer.exit_code) == (BEGIN, None)
        assert await screen.ended() == 2
        check(screen, BEGIN)
        assert screen.next == BEGIN + KEPT // 2


async def test_terminals_do_not_mix(side, tmp_path):
    screens = [await side.run(tmp_path, "exec cat") for _ in range(5)]
    for number, screen in enumerate(screens):
        await screen.type(f"{number}\n")
    for number, screen in enumerate(screens):
        assert await screen.sees(f"{number}\n") == b""


def test_the_bytes_of_a_place_are_those_that_belong_there():
    assert counted(BEGIN, 16) == b"0000001\n0000002\n"
    assert counted(BEGIN + 11, 6) == b"0002\n0"

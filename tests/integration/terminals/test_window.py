"""How far a terminal is read ahead of who looks at it, and that nobody who looks holds it up."""

from __future__ import annotations

from agor.protocol.terminals import KEPT, WINDOW
from tests.integration.processes import memory
from tests.integration.terminals.counting import BEGIN, COUNT, LINE, check
from tests.integration.terminals.screens import cut, looking_at

MEBI = 2**20


async def test_a_program_waits_for_somebody_who_looks_and_does_not_acknowledge(
    executor, side, tmp_path
):
    screen = await side.run(tmp_path, "read x; exec yes")
    screen.acknowledges = False
    # So far was acknowledged as it came.
    held = BEGIN + WINDOW
    before = memory(executor.pid)
    await screen.type("\n")
    await screen.until_next(held)
    for _ in range(50):
        assert (await side.ping()).pong
    assert screen.next == held
    async with looking_at(executor) as other:
        looked = await other.screen(screen.id).attach()
        assert looked.offset + len(looked.data) == held, "no more than that was even read"
    assert memory(executor.pid, "VmHWM") - before < 8 * MEBI
    await screen.close()


async def test_acknowledgements_of_nothing_do_no_harm(executor, side, tmp_path):
    async with looking_at(executor) as other:
        screen = await side.run(tmp_path, "read x; exec yes")
        screen.acknowledges = False
        await screen.type("\n")
        held = BEGIN + WINDOW
        await screen.until_next(held)
        stranger = other.screen(screen.id)
        stranger.acknowledge(held)
        await other.ping()
        for place in (0, held + 1, held + WINDOW, 2**53):
            screen.acknowledge(place)
        assert (await side.ping()).pong
        assert screen.next == held
        screen.acknowledge(held - 100)
        await screen.until_next(held + WINDOW - 100)
        # One that comes too late takes nothing back.
        screen.acknowledge()
        screen.acknowledge(held)
        await screen.until_next(held + 2 * WINDOW - 100)
        side.screen("nobody").acknowledge(1)
        side.screen("nobody").detach()
        assert (await side.ping()).pong
        await screen.close()


async def test_what_was_printed_before_the_end_comes_before_it(executor, side, tmp_path):
    """The shell has ended while nothing was read: the kernel still has the rest."""
    lines = (WINDOW + 3000) // LINE
    screen = await side.run(tmp_path, f"read x; seq -f %07g 1 {lines} | cat; exit 8")
    screen.acknowledges = False
    await screen.type("\n")
    await executor.logged("terminal_ended")
    await screen.until_next(BEGIN + WINDOW)
    assert (await side.greet()).terminals[0].exit_code is None
    screen.acknowledge()
    assert await screen.ended() == 8
    check(screen, BEGIN)
    assert screen.next == BEGIN + lines * LINE


async def test_a_program_that_waits_for_somebody_who_vanishes_goes_on(executor, tmp_path):
    async with looking_at(executor) as side:
        screen = await side.run(tmp_path, COUNT)
        screen.acknowledges = False
        await screen.type("\n")
        await screen.until_next(BEGIN + WINDOW)
        await cut(side)
    await executor.logged("terminal_ended")


async def test_a_program_that_nobody_looks_at_runs_on_and_the_last_is_kept(
    executor, side, tmp_path
):
    many = 4_000_000
    screen = await side.run(tmp_path, f"read x; seq -f %07.0f 1 {many} | cat; exit 4")
    before = memory(executor.pid)
    screen.detach()
    await screen.type("\n")
    # Nobody is attached: the daemon is told of the end, and of nothing else.
    end = screen.next = BEGIN + many * LINE
    assert await screen.ended() == 4
    answer = await screen.attach()
    assert (answer.offset, answer.exit_code) == (end - KEPT, 4)
    check(screen, end - KEPT)
    assert memory(executor.pid, "VmHWM") - before < 8 * MEBI

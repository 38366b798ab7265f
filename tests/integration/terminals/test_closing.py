"""A closed terminal leaves nothing of its session behind, however that tried to stay."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from agor.errors import RpcError
from tests.contract.waiting import until
from tests.integration.processes import PATIENCE
from tests.integration.terminals.screens import Onlooker, Screen, looking_at

#: A job of an interactive shell, which is a process group of its own; it says that it is there.
JOB = "sh -c 'echo u''p; exec sleep 1000'"
BACKGROUND = f"{JOB} &\n"
NOHUP = "nohup sh -c 'echo u''p >/dev/tty; exec sleep 1000' >/dev/null 2>&1 &\n"
#: Ignores what can be ignored, and so do its children.
STUBBORN = f"trap '' HUP TERM INT QUIT TSTP; (sleep 1001 & {JOB}) &\n"
DISOWNED = f"{JOB} & disown -h; disown -a\n"


async def busy(side: Onlooker, folder, line: str, shell: str = "bash") -> Screen:
    """Open a shell and have it start something."""
    screen = await side.open(folder, shell)
    await screen.type(line)
    await screen.sees("up\r\n")
    return screen


@pytest.mark.parametrize("line", [BACKGROUND, NOHUP, STUBBORN, DISOWNED])
async def test_closing_ends_all_of_its_jobs(executor, side, tmp_path, line):
    screen = await busy(side, tmp_path, line)
    await until(lambda: len(executor.offspring()) >= 2)
    await screen.close()
    assert executor.offspring() == set()
    with pytest.raises(RpcError) as gone:
        await screen.attach()
    assert gone.value.code == "unknown_terminal"
    assert (await side.greet()).terminals == []


async def test_closing_ends_a_stopped_job(executor, side, tmp_path):
    screen = await side.open(tmp_path, "bash")
    await screen.type(f"{JOB}\n")
    await screen.sees("up\r\n")
    await screen.type("\x1a")
    await screen.sees("Stopped")
    await screen.close()
    assert executor.offspring() == set()


async def test_closing_ends_a_shell_that_ignores_every_polite_signal(executor, side, tmp_path):
    screen = await side.run(
        tmp_path, "trap '' HUP TERM INT QUIT; echo deaf; while :; do sleep 1000; done"
    )
    await screen.sees("deaf\n")
    await screen.close()
    assert executor.offspring() == set()


async def test_closing_ends_one_that_forks_as_it_dies(executor, side, tmp_path):
    screen = await side.run(
        tmp_path, "trap '(trap \"\" HUP; sleep 1000) & (trap \"\" HUP; sleep 1001) &' HUP\n"
        "trap '' TERM; echo up; while :; do sleep 1000; done"
    )  # fmt: skip
    await screen.sees("up\n")
    await screen.close()
    assert executor.offspring() == set()


async def test_a_program_can_tidy_up_when_its_terminal_hangs_up(side, tmp_path):
    screen = await side.run(
        tmp_path,
        "trap 'seq 1 100000; echo tidied > tidied; exit' HUP\n"
        "echo up; while :; do sleep 0.01; done",
    )
    # With somebody who looks and acknowledges nothing, it could not print as it tidies up.
    screen.acknowledges = False
    await screen.sees("up\n")
    await screen.close()
    assert (tmp_path / "tidied").read_text() == "tidied\n"


async def test_one_that_is_stopped_can_tidy_up_as_well(side, tmp_path):
    screen = await side.run(
        tmp_path, "trap 'echo tidied > tidied; exit' HUP; echo up; kill -STOP $$"
    )
    await screen.sees("up\n")
    stopped = (await side.greet()).terminals[0].pid
    await until(lambda: " T " in Path(f"/proc/{stopped}/stat").read_text())
    await screen.close()
    assert (tmp_path / "tidied").read_text() == "tidied\n"


async def test_who_left_the_session_outlives_the_terminal(executor, side, tmp_path):
    """Whoever typed `setsid` wanted that; it ends with the executor, by its keeper."""
    screen = await busy(side, tmp_path, f"setsid {JOB} &\n")
    await screen.close()
    await until(lambda: len(executor.offspring()) == 1)


async def test_closing_again_or_nothing_is_closed_as_well(executor, side, tmp_path):
    screen = await busy(side, tmp_path, NOHUP)
    await asyncio.gather(*(screen.close() for _ in range(5)))
    await screen.close()
    await side.screen("never there").close()
    assert executor.offspring() == set()


async def test_closing_goes_on_although_who_asked_hangs_up(executor, tmp_path):
    async with looking_at(executor) as side:
        screen = await busy(side, tmp_path, NOHUP)
        closing = asyncio.create_task(screen.close())
        await side.settle()
    await asyncio.gather(closing, return_exceptions=True)
    await executor.logged("terminal_closed")
    assert executor.offspring() == set()


async def test_a_terminal_that_is_being_closed_is_there_for_nobody(side, tmp_path):
    screen = await busy(side, tmp_path, STUBBORN)
    closing = asyncio.create_task(screen.close())
    await side.settle()
    assert (await side.greet()).terminals == []
    with pytest.raises(RpcError) as refused:
        await side.spawn(tmp_path, terminal_id=screen.id)
    assert refused.value.code == "terminal_ended"
    await closing
    assert (await side.spawn(tmp_path, terminal_id=screen.id)).pid


async def test_a_shutdown_closes_terminals_and_does_not_wait_for_them(executor, side, tmp_path):
    for line in (BACKGROUND, NOHUP, STUBBORN):
        await busy(side, tmp_path, line)
    # Hours, if a shell were work that finishes by itself.
    assert (await side.shutdown(10**7)).status == "idle"
    assert executor.offspring() == set()
    assert await executor.ended() == 0


async def test_a_shutdown_lets_a_task_finish_and_closes_terminals_meanwhile(
    executor, side, tmp_path
):
    await busy(side, tmp_path, BACKGROUND)
    run = side.start([{"delay_ms": 10**7}], "task")
    await side.until(lambda: side.messages["task"])
    ending = asyncio.create_task(side.shutdown(10**7))
    await executor.logged("terminal_closed")
    assert not run.done()
    await side.stop("task")
    await ending
    assert await executor.ended() == 0
    executor.wait_childless()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_closes_terminals(executor, side, tmp_path, number):
    await busy(side, tmp_path, STUBBORN)
    executor.send_signal(number)
    assert await executor.ended() == 0
    executor.wait_childless()


async def test_a_second_signal_kills_what_is_in_terminals_at_once(executor, side, tmp_path):
    await busy(side, tmp_path, STUBBORN)
    executor.send_signal(signal.SIGTERM)
    await executor.logged("shutting_down")
    executor.send_signal(signal.SIGTERM)
    assert await executor.ended() == -signal.SIGTERM
    executor.wait_childless()


async def test_an_executor_that_nobody_needs_closes_its_terminals_and_ends(start, tmp_path):
    executor = start("--orphan-timeout-ms", "250")
    async with looking_at(executor) as side:
        await busy(side, tmp_path, STUBBORN)
    assert await executor.ended() == 0
    assert "terminal_closed" in executor.log
    executor.wait_childless()


async def test_an_executor_that_is_killed_hangs_up(executor, side, tmp_path):
    await busy(side, tmp_path, BACKGROUND)
    executor.send_signal(signal.SIGKILL)
    async with asyncio.timeout(PATIENCE):
        await side.peer.wait_closed()
    await asyncio.to_thread(executor.wait_childless)

"""Certification: ends. Of commands, by themselves or by force, and of the environment."""

# ruff: noqa: D102 - the names are the sentences

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest

from agor.environments.base import EnvironmentPrimitive
from agor.errors import CommandTimedOut, EnvironmentEnded
from agor.testing.cases import Cases
from agor.testing.waiting import do, is_alive, soon, until_gone

#: Starts a child in the background, tells its process id, and waits for it.
WITH_CHILD = ["sh", "-c", "sleep 1000 & echo $!; wait"]
#: The same, and neither of them cares for TERM.
STUBBORN = ["sh", "-c", 'trap "" TERM; sleep 1000 & echo $!; while :; do sleep 1000; done']
SHORT = 0.3
#: Seconds in which any command says its first word, also where there is much to do.
ENOUGH = 2.0


async def first_line(output: AsyncIterator[bytes]) -> str:
    """Read a line, as far as the command has written it."""
    heard = b""
    while not heard.endswith(b"\n"):
        heard += await soon(anext(output))
    return heard.decode().strip()


class EndingCases(Cases):
    """Whatever ends, ends with all that it started, as far as its process group goes."""

    @pytest.mark.parametrize("command", [WITH_CHILD, STUBBORN], ids=["willing", "stubborn"])
    async def test_a_command_that_takes_too_long_is_ended_with_its_children(
        self, environment: EnvironmentPrimitive, command: list[str]
    ) -> None:
        async with await soon(environment.exec(command, timeout=ENOUGH)) as running:
            child = await first_line(running.stdout)
            with pytest.raises(CommandTimedOut, match=f"{ENOUGH:g} s"):
                await soon(running.wait())
            await until_gone(environment, child)

    async def test_the_streams_of_a_command_that_took_too_long_do_not_look_complete(
        self, environment: EnvironmentPrimitive
    ) -> None:
        async with await soon(environment.exec(["sleep", "1000"], timeout=SHORT)) as running:
            with pytest.raises(CommandTimedOut):
                await soon(anext(running.stdout))
            with pytest.raises(CommandTimedOut):
                await soon(anext(running.stderr))
        with pytest.raises(CommandTimedOut):
            await soon(environment.run(["sleep", "1000"], timeout=SHORT))

    async def test_a_command_in_time_is_not_bothered(
        self, environment: EnvironmentPrimitive
    ) -> None:
        done = await soon(environment.run(["echo", "in time"], timeout=1000))
        assert (done.exit_code, done.stdout) == (0, b"in time\n")

    async def test_kill_reaches_the_whole_group(self, environment: EnvironmentPrimitive) -> None:
        async with await soon(environment.exec(WITH_CHILD)) as running:
            child = await first_line(running.stdout)
            await soon(running.kill())
            assert await soon(running.wait()) == -signal.SIGTERM
            await until_gone(environment, child)

    async def test_kill_sends_the_signal_it_is_told(
        self, environment: EnvironmentPrimitive
    ) -> None:
        script = 'trap "exit 5" USR1; echo ready; while :; do sleep 0.05; done'
        async with await soon(environment.exec(["sh", "-c", script])) as running:
            assert await first_line(running.stdout) == "ready"
            await soon(running.kill(signal.SIGUSR1))
            assert await soon(running.wait()) == 5

    @pytest.mark.parametrize("command", [WITH_CHILD, STUBBORN], ids=["willing", "stubborn"])
    async def test_leaving_the_block_ends_the_group(
        self, environment: EnvironmentPrimitive, command: list[str]
    ) -> None:
        async with await soon(environment.exec(command)) as running:
            child = await first_line(running.stdout)
            assert await is_alive(environment, child)
        await until_gone(environment, child)
        await soon(running.close())
        await soon(running.kill())

    async def test_what_is_left_in_the_background_neither_delays_the_end_nor_survives_it(
        self, environment: EnvironmentPrimitive
    ) -> None:
        done = await soon(environment.run(["sh", "-c", "sleep 1000 & echo $!"]))
        assert done.exit_code == 0
        await until_gone(environment, done.stdout.decode().strip())

    async def test_a_cancelled_run_leaves_no_process(
        self, environment: EnvironmentPrimitive
    ) -> None:
        await do(environment, "mkfifo", "told")
        script = "sleep 1000 & echo $! > told; wait"
        running = asyncio.create_task(environment.run(["sh", "-c", script]))
        told = await soon(environment.run(["cat", "told"]))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(running)
        await until_gone(environment, told.stdout.decode().strip())

    async def test_it_runs_until_it_is_terminated_and_says_so(
        self, environment: EnvironmentPrimitive
    ) -> None:
        name = await environment.get_id()
        assert name
        assert await environment.is_running()
        assert await environment.poll() is None
        await soon(environment.terminate())
        assert not await environment.is_running()
        assert await environment.poll() == 0
        assert await environment.get_id() == name

    async def test_terminating_ends_its_commands_and_whoever_waits_for_them(
        self, environment: EnvironmentPrimitive
    ) -> None:
        running = await soon(environment.exec(["sleep", "1000"]))
        waiting = asyncio.create_task(running.wait())
        reading = asyncio.create_task(anext(running.stdout, b"the end"))
        await soon(environment.terminate())
        assert await soon(waiting) in (-signal.SIGTERM, -signal.SIGKILL)
        assert await soon(reading) == b"the end"

    async def test_terminating_twice_or_at_once_is_fine(
        self, environment: EnvironmentPrimitive
    ) -> None:
        await soon(asyncio.gather(environment.terminate(), environment.terminate()))
        await soon(environment.terminate())

    async def test_a_terminated_environment_refuses_everything(
        self, environment: EnvironmentPrimitive
    ) -> None:
        await soon(environment.terminate())
        for refused in (
            environment.exec(["true"]),
            environment.run(["true"]),
            environment.get_base_paths(),
            environment.read_file("a"),
            environment.write_file("a", b""),
            environment.write_files({"a": b""}),
            environment.list_files(),
            environment.watch(".", print),
        ):
            with pytest.raises(EnvironmentEnded):
                await soon(refused)

    async def test_no_two_environments_have_the_same_id(
        self, environment: EnvironmentPrimitive
    ) -> None:
        async with self.make() as another:
            assert await environment.get_id() != await another.get_id()

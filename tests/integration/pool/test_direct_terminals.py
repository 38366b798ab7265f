"""Terminals of executors inside the daemon: the same code over memory, among its threads."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.integration.pool.side import Side, claim
from tests.integration.processes import Mark
from tests.integration.terminals.screens import shell_script

from agor.daemon.pool.direct import DirectExecutors
from agor.daemon.pool.settings import PoolSettings
from agor.execution import ExecutionEnvironment
from agor.executor.server import Executor, Options
from agor.protocol.terminals import SpawnTerminalParams


@asynccontextmanager
async def direct(folder: Path, side: Side) -> AsyncIterator[ExecutionEnvironment]:
    """The executor of a session, inside this process."""
    settings = PoolSettings(runtime=folder / "run")
    executors = DirectExecutors(settings, side, lambda: Executor(Options()), side.on_end)
    try:
        yield await executors.acquire(claim("session"))
    finally:
        await executors.close(drain=True)


def params_of(folder: Path, commands: str, mark: Mark) -> SpawnTerminalParams:
    return SpawnTerminalParams(
        terminal_id="t", cwd=str(folder), shell=shell_script(folder, commands), env=mark.on({})
    )


async def test_a_terminal_inside_the_daemon_is_one_like_any_other(tmp_path):
    side, mark = Side(), Mark()
    async with direct(tmp_path, side) as environment:
        terminals = environment.terminals
        params = params_of(tmp_path, "while read x; do echo got $x; seq 1 100000; done", mark)
        opened = await terminals.spawn(params)
        assert mark.bearers() >= {opened.pid}
        await side.look(environment, "t")
        for number in range(3):
            await terminals.type("t", b"%d\n" % number)
            await side.until(lambda: side.printed["t"].endswith(b"\n100000\n"))
            said, side.printed["t"] = side.printed["t"], b""
            assert said.endswith(b"got %d\n" % number + COUNTED)
        await terminals.resize("t", 100, 40)
        await terminals.type("t", b"\x04")
        await side.until(lambda: side.exit_codes)
        assert side.exit_codes == {"t": 0}
        again = await terminals.attach("t")
        assert (again.cols, again.rows, again.exit_code) == (100, 40, 0)
        await terminals.close("t")
        assert mark.bearers() == set()


COUNTED = b"".join(b"%d\n" % number for number in range(1, 100_001))


async def test_many_threads_do_not_keep_a_shell_from_starting(tmp_path):
    """Who forks with threads around must not run code of its own in between."""
    over, side, mark = threading.Event(), Side(), Mark()

    def work() -> None:
        while not over.is_set():
            sorted(str(number) for number in range(100))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        async with direct(tmp_path, side) as environment:
            for _ in range(5):
                await environment.terminals.spawn(params_of(tmp_path, "exec cat", mark))
                await environment.terminals.close("t")
    finally:
        over.set()
        for thread in threads:
            thread.join()


async def test_the_end_of_the_daemon_leaves_no_process_of_its_terminals(tmp_path):
    side, mark = Side(), Mark()
    async with direct(tmp_path, side) as environment:
        stubborn = "trap '' HUP TERM; sleep 1000 & echo up; while :; do sleep 1000; done"
        await environment.terminals.spawn(params_of(tmp_path, stubborn, mark))
        await side.look(environment, "t")
        await side.until(lambda: b"up\n" in side.printed["t"])
    assert mark.bearers() == set()

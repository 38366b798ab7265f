"""The launcher by itself: what it starts shares nothing, what it is told it does or refuses."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract.waiting import until
from tests.integration.pool.side import PATIENCE, claim, pool_in, run, soon, tree_of

from agor.environments.identity import UnixIdentity
from agor.environments.launching import LauncherLink, bind_control, start_launcher
from agor.errors import Disconnected, RpcError
from agor.executor.launcher.keeper import LOG_BYTES, append_bounded
from agor.linux import children, is_alive, kill_family, send
from agor.protocol.forms import Nothing
from agor.protocol.launching import (
    COUNT_FAMILY,
    RETIRE,
    SIGNAL_FAMILY,
    SPAWN,
    Family,
    Process,
    SignalParams,
    SpawnParams,
)
from agor.protocol.methods import (
    PING,
)
from agor.protocol.validation import Method
from agor.rpc import Routes, unix


@pytest.fixture
async def started(folder: Path) -> AsyncIterator[tuple[LauncherLink, subprocess.Popen[bytes]]]:
    """A launcher without any pool."""
    with bind_control(folder / "l.sock") as listener:
        arguments = ["--orphan-timeout-ms", "300"]
        process = start_launcher(UnixIdentity.current(), listener, folder / "log", arguments)
        link = LauncherLink.connect(folder / "l.sock")
    assert link is not None
    hello = await link.greet(PATIENCE)
    yield link, process
    if link.open:
        kill_family(children(hello.process.pid))
    link.close()
    await soon(asyncio.to_thread(process.wait, PATIENCE))


async def spawn(
    link: LauncherLink, folder: Path, name: str, orphan_timeout_ms: int = 60_000
) -> Family:
    """Start an executor, which nobody connects to."""
    path = folder / f"{name}.sock"
    with socket.socket(socket.AF_UNIX) as listener, (folder / f"{name}.log").open("w+b") as log:
        listener.bind(str(path))
        listener.listen()
        with (folder / f"{name}.report").open("w+b") as report:
            params = SpawnParams(
                executor_id=name,
                orphan_timeout_ms=orphan_timeout_ms,
                unused_timeout_ms=orphan_timeout_ms,
                max_line=1_000_000,
                outbox_bytes=1_000_000,
            )
            fds = [listener.fileno(), log.fileno(), report.fileno()]
            return await link.call(SPAWN, params, fds, timeout=PATIENCE)


def catches(process: Process, number: signal.Signals) -> bool:
    """Tell whether a process has a handler for a signal."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught >> (number - 1) & 1)


async def stop(process: Process) -> None:
    """Stop a process, and wait until it is."""
    os.kill(process.pid, signal.SIGSTOP)
    stat = Path(f"/proc/{process.pid}/stat")
    await until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")


def shared_things(pid: int) -> set[str]:
    """Sockets and pipes that a process has open; what has a number can be compared."""
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(str(link.readlink()))
    return {target for target in found if target.startswith(("socket:", "pipe:"))}


async def test_what_it_starts_shares_no_descriptor_with_anybody(started, folder: Path):
    link, process = started
    families = [await spawn(link, folder, f"e{number}") for number in range(3)]
    for number in range(3):
        peer = await unix.connect(folder / f"e{number}.sock", Routes())
        await peer.call(PING, Nothing(), timeout=PATIENCE)
        await peer.close()
    # It closes what it was sent after its answer: once it answers again, it has.
    await link.greet(PATIENCE)
    for family in families:
        others = [other for other in families if other is not family]
        own = shared_things(family.executor.pid)
        assert own, "its listening socket and its standard error at least"
        assert not own & shared_things(process.pid)
        for other in others:
            assert not own & shared_things(other.executor.pid)
            assert not own & shared_things(other.keeper.pid)
    # Each is a session of its own: a signal to a group reaches one of them only.
    sessions = [os.getsid(each.executor.pid) for each in families]
    assert sessions == [each.executor.pid for each in families]


async def test_its_environment_is_a_list_of_what_is_allowed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary-3141")
    monkeypatch.setenv("LC_CANARY", "allowed")
    async with pool_in(folder) as (pool, side):
        environment = await soon(pool.acquire(claim("s")))
        await run(environment, [{"run": ["sh", "-c", "env; cat /proc/$PPID/environ"]}])
        text = side.text("task")
        assert "LC_CANARY=allowed" in text
        assert "canary-3141" not in text
        assert f"HOME={UnixIdentity.current().home}" in text
        for pid in tree_of(environment):
            assert b"canary-3141" not in Path(f"/proc/{pid}/environ").read_bytes()


async def test_it_answers_nonsense_with_errors_and_goes_on(started, folder: Path):
    link, _ = started
    for method, params in (("no_such_method", {}), ("spawn", {}), ("signal_family", {"signal": 9})):
        with pytest.raises(RpcError):
            await link.call(Method(method, dict, dict), params, timeout=PATIENCE)
    alone = SpawnParams(
        executor_id="x", orphan_timeout_ms=1, unused_timeout_ms=1, max_line=1, outbox_bytes=1
    )
    with pytest.raises(RpcError, match="0 descriptors"):
        await link.call(SPAWN, alone, timeout=PATIENCE)
    family = await spawn(link, folder, "e")
    assert (await link.call(COUNT_FAMILY, family, timeout=PATIENCE)).count == 1
    (folder / "e.sock").unlink()
    with pytest.raises(RpcError, match="already"):
        await spawn(link, folder, "e")


async def test_it_signals_a_family_and_nobody_else(started, folder: Path):
    link, _ = started
    first = await spawn(link, folder, "first")
    second = await spawn(link, folder, "second")
    params = SignalParams(family=first, signal=9)
    assert (await link.call(SIGNAL_FAMILY, params, timeout=PATIENCE)).count == 1
    async with asyncio.timeout(PATIENCE):
        while is_alive(first.keeper):
            await asyncio.sleep(0.001)
    assert (await link.call(COUNT_FAMILY, first, timeout=PATIENCE)).count == 0
    assert (folder / "first.report").read_text().count('"signal":9') == 1
    assert is_alive(second.executor)


async def test_it_ends_when_told_once_what_it_started_is_gone(started, folder: Path):
    link, process = started
    family = await spawn(link, folder, "e")
    await link.call(RETIRE, Nothing(), timeout=PATIENCE)
    assert process.poll() is None
    assert send(family.executor, signal.SIGTERM)
    await soon(link.wait_closed())
    assert not is_alive(family.executor)
    assert not is_alive(family.keeper)
    with pytest.raises(Disconnected):
        await link.greet(1)


async def test_a_keeper_that_dies_before_its_report_is_read_keeps_no_launcher(
    started, folder: Path
):
    link, process = started
    await until(lambda: children(process.pid))
    (keeper,) = children(process.pid)
    await stop(keeper)
    spawning = asyncio.create_task(spawn(link, folder, "e"))
    # The launcher answers in turn: it has given the task to the keeper.
    await until(lambda: link._waiting)
    await link.greet(PATIENCE)
    await stop(link.process)
    os.kill(keeper.pid, signal.SIGCONT)
    # A keeper catches SIGTERM once it has reported its executor.
    await until(lambda: children(keeper.pid) and catches(keeper, signal.SIGTERM))
    (executor,) = children(keeper.pid)
    os.kill(keeper.pid, signal.SIGKILL)
    await until(lambda: not is_alive(keeper))
    os.kill(process.pid, signal.SIGCONT)
    family = await soon(spawning)
    assert is_alive(family.keeper)
    await until(lambda: not is_alive(executor))
    await link.call(RETIRE, Nothing(), timeout=PATIENCE)
    assert send(family.executor, signal.SIGTERM)
    await soon(link.wait_closed())


async def test_it_ends_by_itself_with_neither_a_daemon_nor_work(started):
    link, process = started
    link.close()
    assert await soon(asyncio.to_thread(process.wait, PATIENCE)) == 0


async def test_a_log_keeps_its_end_and_stays_bounded(tmp_path: Path):
    with (tmp_path / "log").open("w+b") as log:
        for number in range(20_000):
            append_bounded(log.fileno(), b"line %d of the log\n" % number)
        assert log.seek(0, os.SEEK_END) <= LOG_BYTES
        log.seek(0)
        assert log.read().endswith(b"line 19999 of the log\n")
        append_bounded(log.fileno(), b"x" * (3 * LOG_BYTES))
        assert log.seek(0, os.SEEK_END) <= LOG_BYTES


async def test_an_executor_that_writes_without_end_fills_no_disk(folder: Path):
    async with pool_in(folder) as (pool, side):
        environment = await soon(pool.acquire(claim("s")))
        script = "for i in $(seq 300); do head -c 10000 /dev/zero > /proc/$PPID/fd/2; done"
        assert (await run(environment, [{"run": ["sh", "-c", script]}])).status == "completed"
        (log,) = (folder / "run" / "executors").glob("*/log")
        assert log.stat().st_size <= LOG_BYTES
        assert await environment.is_healthy()
    assert {ending.survivors for ending in side.endings} == {0}


#: What a launcher has behind it, then a process forked from it as executors are.
FORKED = """
import asyncio, os
import uvloop
from agor.executor.launcher import main
from agor.executor.launcher.descriptors import keep_only

async def run():
    process = await asyncio.create_subprocess_exec("true")
    return await process.wait()

main.warm_up()
pid = os.fork()
if pid == 0:
    keep_only({0, 1, 2})
    os._exit(uvloop.new_event_loop().run_until_complete(run()))
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_what_it_forks_can_start_processes_through_its_event_loop():
    # What libuv keeps of a loop before the fork made this end in SIGABRT.
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr.decode()

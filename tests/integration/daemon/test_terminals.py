"""Terminals over real executors: they outlive daemons and tasks, and leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agor.client import Client
from agor.errors import PoolExhausted
from agor.linux import is_alive, process_of
from agor.protocol.launching import Process
from tests.api.serving import serving
from tests.integration.daemon.client_steps import PATIENCE, begin, say
from tests.integration.daemon.daemon_process import DaemonProcess, running_daemon
from tests.integration.daemon.proxy import proxy_to
from tests.integration.daemon.terminal_steps import Watching, open_in, until_ended


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    with running_daemon() as running:
        yield running


def process(pid: int) -> Process:
    found = process_of(pid)
    assert found is not None
    return found


async def pid_of(file: Path) -> int:
    """A process that has written its number into a file."""
    async with asyncio.timeout(PATIENCE):
        while not file.exists() or not file.read_text().strip():
            await asyncio.sleep(0.01)
    return int(file.read_text())


async def test_a_terminal_outlives_daemons_that_are_killed_and_restarted(daemon: DaemonProcess):
    async with daemon.client() as client:
        terminal_id = await open_in(client, await begin(client))
        async with client.attach_terminal(terminal_id) as attached:
            screen = Watching(attached)
            await screen.run("export KEPT=1; before=$$")
            await asyncio.to_thread(daemon.kill)
            await asyncio.to_thread(daemon.start)
            assert "kept-1 same" in await screen.run("[ $before = $$ ] && echo kept-$KEPT same")
            await asyncio.to_thread(daemon.restart)
            assert "kept-1 again" in await screen.run("echo kept-$KEPT again")
            assert (attached.lost, attached.cursor) == (0, len(screen.seen))
        async with client.attach_terminal(terminal_id) as attached:
            whole = Watching(attached)
            await whole.until(screen.seen[-30:])
        assert whole.seen.startswith(screen.seen), "over both cuts: no gap and no duplicate"
        assert (await client.terminal(terminal_id)).status == "open"


async def test_a_terminal_is_never_idle_whatever_it_does_also_after_a_restart():
    with running_daemon({"execution.idle_timeout_ms": 300}) as daemon:
        async with daemon.client() as client:
            session_id = await begin(client)
            terminal_id = await open_in(client, session_id)
            await asyncio.to_thread(daemon.kill)
            await asyncio.to_thread(daemon.start)
            task_id = await say(client, session_id, {"text": "hello"})
            await client.wait_task(task_id, timeout=PATIENCE)
            async with asyncio.timeout(PATIENCE):
                # That of the task was there later, and is idle.
                while len(await client.executors()) != 1:
                    await asyncio.sleep(0.01)
            [executor] = await client.executors()
            assert (executor.terminal_id, executor.state) == (terminal_id, "busy")
            async with client.attach_terminal(terminal_id) as attached:
                await Watching(attached).run("true")


async def test_what_a_shell_prints_while_there_is_no_daemon_is_seen_afterwards(
    daemon: DaemonProcess, folder: Path
):
    go, done = folder / "go", folder / "done"
    async with daemon.client() as client:
        terminal_id = await open_in(client, await begin(client))
        async with client.attach_terminal(terminal_id) as attached:
            screen = Watching(attached)
            await screen.run("stty -echo")
            wait = f"until [ -e {go} ]; do sleep 0.01; done"
            script = f"echo wait-$((1 + 1)); {wait}; echo mean-$((1 + 1)); touch {done}\n"
            await attached.type(script.encode())
            await screen.until(b"wait-2")
            await asyncio.to_thread(daemon.kill)
            go.touch()
            async with asyncio.timeout(PATIENCE):
                while not done.exists():
                    await asyncio.sleep(0.01)
            await asyncio.to_thread(daemon.start)
            await screen.until(b"mean-2")
            assert attached.lost == 0


@pytest.mark.parametrize("what", ["shell", "executor"])
async def test_what_ended_while_there_was_no_daemon_is_said_to_have_ended(
    daemon: DaemonProcess, what: str
):
    async with daemon.client() as client:
        terminal_id = await open_in(client, await begin(client))
        async with client.attach_terminal(terminal_id) as attached:
            screen = Watching(attached)
            printed = await screen.run("echo pid-$$-")
            shell = process(int(printed.rpartition("pid-")[2].split("-")[0]))
        (executor,) = daemon.executors()
        await asyncio.to_thread(daemon.kill)
        ended = shell if what == "shell" else executor.executor
        os.kill(ended.pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            while is_alive(ended):
                await asyncio.sleep(0.01)
        await asyncio.to_thread(daemon.start)
        found = await until_ended(client, terminal_id)
        assert found.exit_code == (-9 if what == "shell" else None)
        assert found.how is not None
        assert ("killed by SIGKILL" if what == "shell" else "executor was gone") in found.how
        async with asyncio.timeout(PATIENCE):
            while await client.executors():
                await asyncio.sleep(0.01)
        assert not is_alive(executor.executor)
        async with client.attach_terminal(terminal_id, after=len(screen.seen)) as attached:
            await Watching(attached).to_its_end()
            assert attached.exit is not None
            assert attached.exit.how == found.how


async def test_stopping_a_task_leaves_the_terminals_of_its_session_alone(daemon: DaemonProcess):
    async with daemon.client() as client:
        session_id = await begin(client)
        terminal_id = await open_in(client, session_id)
        async with client.attach_terminal(terminal_id) as attached:
            screen = Watching(attached)
            await screen.run("export KEPT=1")
            task_id = await say(client, session_id, {"run": ["sleep", "1000"]})
            async with asyncio.timeout(PATIENCE):
                while (await client.task(task_id)).status != "running":
                    await asyncio.sleep(0.01)
            assert len(daemon.executors()) == 2
            await client.stop_task(task_id)
            stopped = await client.wait_task(task_id, timeout=PATIENCE)
            assert (stopped.status, stopped.survivors) == ("stopped", 0)
            assert "kept-1" in await screen.run("echo kept-$KEPT")


async def test_closing_leaves_no_process_also_none_that_hid(daemon: DaemonProcess, folder: Path):
    hidden, plain = folder / "hidden", folder / "plain"
    async with daemon.client() as client:
        terminal_id = await open_in(client, await begin(client))
        async with client.attach_terminal(terminal_id) as attached:
            screen = Watching(attached)
            await screen.run(f"setsid nohup sh -c 'echo $$ > {hidden}; exec sleep 1000' & true")
            await screen.run(f"sh -c 'echo $$ > {plain}; trap \"\" HUP TERM; sleep 1000' & true")
            left = [process(await pid_of(hidden)), process(await pid_of(plain))]
            (executor,) = daemon.executors()
            await client.close_terminal(terminal_id)
            assert [is_alive(each) for each in left] == [False, False]
            assert not is_alive(executor.executor)
            await screen.to_its_end()
            assert attached.exit is not None
            assert attached.exit.exit_code is None
        [ended] = [each async for each in client.audit.entries(action="executor.ended")]
        assert ended.detail["survivors"] == 0


async def test_a_shell_that_exits_leaves_nothing_in_the_background(
    daemon: DaemonProcess, folder: Path
):
    hidden = folder / "hidden"
    async with daemon.client() as client:
        terminal_id = await open_in(client, await begin(client))
        async with client.attach_terminal(terminal_id) as attached:
            screen = Watching(attached)
            await screen.run(f"setsid nohup sh -c 'echo $$ > {hidden}; exec sleep 1000' & true")
            left = process(await pid_of(hidden))
            await attached.type(b"exit 7\n")
            await screen.to_its_end()
            assert attached.exit is not None
            assert attached.exit.exit_code == 7
        async with asyncio.timeout(PATIENCE):
            while await client.executors():
                await asyncio.sleep(0.01)
        assert not is_alive(left)


async def test_an_executor_that_is_killed_ends_its_terminal_and_no_other(daemon: DaemonProcess):
    async with daemon.client() as client:
        session_id = await begin(client)
        terminal_id, other_id = await open_in(client, session_id), await open_in(client, session_id)
        executor_id = (await client.terminal(terminal_id)).executor_id
        (family,) = (each for each in daemon.executors() if each.executor_id == executor_id)
        async with (
            client.attach_terminal(terminal_id) as attached,
            client.attach_terminal(other_id) as other,
        ):
            screen = Watching(attached)
            await screen.run("true")
            os.kill(family.executor.pid, signal.SIGKILL)
            await screen.to_its_end()
            assert attached.exit is not None
            assert "SIGKILL" in attached.exit.how
            await Watching(other).run("true")
        found = await client.terminal(terminal_id)
        assert (found.status, found.how) == ("ended", attached.exit.how)


async def test_a_terminal_counts_as_an_executor_and_is_refused_if_none_becomes_free(folder: Path):
    config: dict[str, Any] = {
        "execution.use_executor": True,
        "execution.max_executors": 1,
        "daemon.drain_on_stop": True,
    }
    async with serving(folder, **config) as served, Client(served.url, served.token) as client:
        session_id = await begin(client)
        terminal_id = await open_in(client, session_id)
        served.daemon.terminals.openings.patience = 0.3
        with pytest.raises(PoolExhausted) as refused:
            await client.open_terminal(session_id, shell="/bin/sh")
        assert "agor terminal list" in (refused.value.hint or "")
        task_id = await say(client, session_id, {"text": "hello"})
        await client.close_terminal(terminal_id)
        assert (await client.wait_task(task_id, timeout=PATIENCE)).status == "completed"
        served.daemon.terminals.openings.patience = PATIENCE
        opened = await client.terminal(await open_in(client, session_id))
        [executor] = await client.executors()
        assert executor.terminal_id == opened.terminal_id, "the idle one made room"


async def test_a_client_comes_back_by_itself_after_a_cut(daemon: DaemonProcess):
    async with daemon.client() as direct:
        terminal_id = await open_in(direct, await begin(direct))
        async with (
            proxy_to(daemon.port) as proxy,
            Client(proxy.url, daemon.token) as client,
            client.attach_terminal(terminal_id) as attached,
        ):
            screen = Watching(attached)
            await attached.resize(111, 44)
            for number in range(5):
                assert f"n-{number}-" in await screen.run(f"echo n-$(({number}))-")
                proxy.cut()
                # What is typed before a cut is noticed is lost with it.
                assert attached._socket is not None
                await attached._socket.wait_closed()
            assert "44 111" in await screen.run("stty size")
            assert attached.cursor == len(screen.seen)


async def test_what_is_typed_and_printed_is_nowhere_on_the_disk(daemon: DaemonProcess):
    typed, shown = "typed-7731-canary", "shown-7732-canary"
    async with daemon.client() as client:
        terminal_id = await open_in(client, await begin(client))
        async with client.attach_terminal(terminal_id) as attached:
            screen = Watching(attached)
            await screen.run(f"read -r x; : {typed}\n{typed}\necho shown-$((7731 + 1))-canary")
            assert shown in screen.seen.decode()
        await asyncio.to_thread(daemon.kill)
        await asyncio.to_thread(daemon.start)
        await client.close_terminal(terminal_id)
    await asyncio.to_thread(daemon.stop)
    files = [path for path in daemon.home.folder.rglob("*") if path.is_file()]
    found = {path.name: path.read_bytes() for path in files}
    assert terminal_id.encode() in found["agor.db"]
    assert terminal_id.encode() in daemon.log_file.read_bytes(), "the log speaks of it"
    for secret in (typed, shown):
        assert [name for name, content in found.items() if secret.encode() in content] == []


async def test_the_example_of_the_documentation_works(daemon: DaemonProcess) -> None:
    page = Path(__file__).parents[3] / "docs" / "how-to" / "use-terminals.md"
    example = page.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", example], capture_output=True, text=True,
        timeout=PATIENCE, env=os.environ | {"AGOR_HOME": str(daemon.home.folder)}, check=True,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert any(line.endswith("/tmp") for line in lines)
    assert lines[-1].endswith("it ended with 3")

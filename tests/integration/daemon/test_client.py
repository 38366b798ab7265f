"""The client, with a real daemon: what it is used for, and how it finds the daemon."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agor.client import Client, calls
from agor.errors import (
    Conflict,
    DaemonNotRunning,
    NotFound,
    TimedOut,
)  # fmt: skip
from agor.home import Home
from tests.integration.daemon.client_steps import PATIENCE, begin, say
from tests.integration.daemon.daemon_process import DaemonProcess, running_daemon
from tests.integration.daemon.fake_daemon import TOKEN


@pytest.fixture(scope="module")
def shared() -> Iterator[DaemonProcess]:
    """A daemon that tests leave as they found it."""
    with running_daemon() as running:
        yield running


@pytest.fixture
def own() -> Iterator[DaemonProcess]:
    """A daemon for one test, which may kill it."""
    with running_daemon() as running:
        yield running


@pytest.fixture
async def client(shared: DaemonProcess) -> AsyncIterator[Client]:
    async with shared.client() as connected:
        yield connected


async def test_a_session_is_begun_shown_changed_and_deleted(client: Client) -> None:
    session = await client.create_session("scripted", Path("/"), title="one", model="m")
    name = session.session_id
    assert (session.status, session.title, session.workspace) == ("idle", "one", "/")
    assert await client.session(name) == session
    assert (await client.change_session(name, title=None)).title is None
    changed = await client.change_session(name, archived=True)
    assert (changed.status, changed.model) == ("archived", "m")
    await client.delete_session(name)
    with pytest.raises(NotFound) as refused:
        await client.session(name)
    assert refused.value.code == "not_found"
    assert name in refused.value.message


async def test_lists_are_read_page_by_page_to_their_end(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_PAGE", 2)
    made = [await begin(client) for _ in range(5)]
    listed = [session.session_id async for session in client.sessions()]
    assert listed[:5] == made[::-1]
    waiting = [await say(client, made[0], {"delay_ms": 60_000}) for _ in range(4)]
    assert [task.task_id async for task in client.tasks(made[0])] == waiting[::-1]
    for task in reversed(waiting):
        await client.stop_task(task)
    assert (await client.wait_task(waiting[0], timeout=PATIENCE)).status == "stopped"
    stopped = [task.task_id async for task in client.tasks(made[0], status="stopped")]
    assert stopped == waiting[::-1]


async def test_a_waiting_task_is_moved_and_a_running_one_is_stopped(client: Client) -> None:
    session = await begin(client)
    first, second, third = [await say(client, session, {"delay_ms": 60_000}) for _ in range(3)]
    async with client.follow(session) as feed:
        async for event in feed:
            if event.type == "status":
                break
    assert (await client.task(third)).queue_position == 2
    assert (await client.move_task(third, 1)).queue_position == 1
    assert (await client.task(second)).queue_position == 2
    for task in (second, third):
        assert (await client.stop_task(task)).status == "stopped"
    assert (await client.stop_task(first, reason="enough")).status == "stopping"
    ended = await client.wait_task(first, timeout=PATIENCE)
    assert (ended.status, ended.survivors) == ("stopped", 0)


async def test_a_question_is_listed_answered_and_answered_once(client: Client) -> None:
    session = await begin(client)
    tool = {"name": "Write", "input": {"path": "a"}, "output": "done", "ask": True}
    task = await say(client, session, {"tool": tool})
    async with asyncio.timeout(PATIENCE), client.follow(session) as feed:
        async for event in feed:
            if event.type == "permission":
                break
    (asked,) = [one async for one in client.permissions(status="pending")]
    assert (asked.task_id, asked.tool_input) == (task, {"path": "a"})
    decided = await client.decide(asked.permission_id, True, updated_input={"path": "b"})
    assert decided == await client.permission(asked.permission_id)
    assert decided.status == "approved"
    with pytest.raises(Conflict):
        await client.decide(asked.permission_id, False)
    assert (await client.wait_task(task, timeout=PATIENCE)).status == "completed"
    blocks = {block.kind: block for block in (await client.messages(session)).items}
    assert blocks["tool_use"].tool_input == {"path": "b"}
    assert blocks["tool_result"].text == "done"


async def test_the_daemon_tells_how_it_is_and_who_runs(client: Client) -> None:
    assert (await client.health()).status == "ok"
    session = await begin(client)
    await client.wait_task(await say(client, session), timeout=PATIENCE)
    assert session in {executor.session_id for executor in await client.executors()}


async def test_waiting_for_a_task_ends_when_it_has_ended_or_with_the_time(client: Client) -> None:
    session = await begin(client)
    task = await say(client, session, {"delay_ms": 60_000})
    with pytest.raises(TimedOut):
        await client.wait_task(task, timeout=0.2)
    waiting = asyncio.create_task(client.wait_task(task, timeout=PATIENCE))
    await client.stop_task(task)
    assert (await waiting).status == "stopped"
    assert await client.wait_task(task) == waiting.result()


# ── where it is ───────────────────────────────────────────────────────────────────────────────────


def test_without_a_daemon_it_is_said_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DaemonNotRunning) as refused:
        Client.local(Home(tmp_path))
    assert str(tmp_path) in refused.value.message
    assert "agor daemon start" in (refused.value.hint or "")


async def test_the_home_is_the_one_of_the_environment(
    shared: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGOR_HOME", str(shared.home.folder))
    async with Client.local() as client:
        assert (await client.health()).status == "ok"


async def test_a_daemon_that_was_restarted_is_found_on_its_new_port(own: DaemonProcess) -> None:
    async with own.client() as client:
        before = own.port
        session = await begin(client)
        own.kill()
        with socket.create_server(("127.0.0.1", before)):
            own.launch()
            # Not ready yet: the call waits for it.
            assert (await client.session(session)).session_id == session
            own.wait_ready()
        assert own.port != before


async def test_a_daemon_that_is_gone_is_told_by_calls_and_feeds(own: DaemonProcess) -> None:
    async with Client.local(own.home, attempts=2, reconnect_timeout=0.2) as client:
        session = await begin(client)
        feed = client.follow(session)
        await anext(feed)
        url = own.url
        own.stop()
        with pytest.raises(DaemonNotRunning):
            await client.health()
        with pytest.raises(DaemonNotRunning):
            await anext(feed)
        async with Client(url, TOKEN, attempts=2) as other:
            with pytest.raises(DaemonNotRunning, match=url):
                await other.health()


async def test_the_example_of_the_documentation_works(own: DaemonProcess) -> None:
    page = Path(__file__).parents[3] / "docs" / "how-to" / "use-the-client.md"
    example = page.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", example,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        env=os.environ | {"AGOR_HOME": str(own.home.folder)},
    )  # fmt: skip
    try:
        async with asyncio.timeout(PATIENCE):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = output.decode().splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "user_message", "text", "tool_use", "tool_result", "completed",
    ]  # fmt: skip
    assert "tool_result: written" in lines
    own.stop()

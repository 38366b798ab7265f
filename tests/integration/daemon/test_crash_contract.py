"""The crash contract, line by line, with real processes that are really killed."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agor.client import Client
from agor.errors import Conflict, NotFound
from agor.linux import is_alive
from agor.protocol.api import FeedEvent, Task
from tests.contract import waiting
from tests.integration.daemon.daemon_process import DaemonProcess, kill, running_daemon
from tests.integration.daemon.in_process import soon

ASK = {"tool": {"name": "Write", "input": {"path": "x"}, "output": "done", "ask": True}}
WORDS = [f"word{number} " for number in range(200)]
#: Some two seconds of words.
SLOWLY = [step for word in WORDS for step in ({"text": word}, {"delay_ms": 10})]


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    with running_daemon({"execution.stop_timeout_ms": 1000}, cold=True) as running:
        yield running


@pytest.fixture
async def client(daemon: DaemonProcess) -> AsyncIterator[Client]:
    async with daemon.client() as connected:
        yield connected


async def session_in(client: Client, folder: Path) -> str:
    made = await soon(client.create_session(agentic_tool="scripted", workspace=str(folder)))
    return made.session_id


async def say(client: Client, session: str, script: Any) -> str:
    text = script if isinstance(script, str) else json.dumps(script)
    return (await soon(client.prompt(session, text))).task_id


async def until(client: Client, session: str, happened: Callable[[FeedEvent], object]) -> FeedEvent:
    async with asyncio.timeout(30):
        async for event in client.follow(session):
            if happened(event):
                return event
    raise AssertionError("the feed ended")


async def ended(client: Client, task_id: str) -> Task:
    async with asyncio.timeout(60):
        return await client.wait_task(task_id)


def becomes(task_id: str, status: str) -> Callable[[FeedEvent], bool]:
    return lambda event: (
        event.type == "task" and event.task_id == task_id and event.data["status"] == status
    )


async def spoken(client: Client, session: str) -> str:
    """All that the agent said."""
    pages: list[str] = []
    cursor = None
    while True:
        found = await soon(client.messages(session, cursor=cursor))
        texts = (message.text for message in found.items if message.kind == "text")
        pages.insert(0, "".join(texts))
        cursor = found.next_cursor
        if cursor is None:
            return "".join(pages)


def said(word: str) -> Callable[[FeedEvent], bool]:
    """Tell when the agent says a word; the prompt has it too."""
    return lambda event: (
        event.type == "block_delta"
        and not event.data["block_id"].endswith("-prompt")
        and word in event.data["text"]
    )


async def kill_and_start(daemon: DaemonProcess) -> None:
    await asyncio.to_thread(daemon.kill)
    await asyncio.to_thread(daemon.start)


# ── 1. what was shown is still there ─────────────────────────────────────────────────────────


async def test_what_a_client_was_shown_is_there_after_the_daemon_was_killed(
    daemon: DaemonProcess, client: Client, folder: Path
):
    session = await session_in(client, folder)
    await say(client, session, [{"flood": {"events": 20000, "bytes": 50}}])
    shown: list[FeedEvent] = []
    async with asyncio.timeout(30):
        async for event in client.follow(session):
            shown.append(event)
            if len(shown) == 3000:
                break
    await kill_and_start(daemon)
    again: list[FeedEvent] = []
    async with asyncio.timeout(30):
        async for event in client.follow(session):
            again.append(event)
            if len(again) == len(shown):
                break
    assert again == shown


async def test_what_streams_goes_on_while_the_process_that_writes_is_killed_again_and_again(
    daemon: DaemonProcess, client: Client, folder: Path
):
    session = await session_in(client, folder)
    task_id = await say(client, session, SLOWLY)
    for word in ("word5", "word60", "word120"):
        await until(client, session, said(word))
        await waiting.until(daemon.writers)
        (writer,) = daemon.writers()
        assert kill(writer)
    assert (await ended(client, task_id)).status == "completed"
    assert await spoken(client, session) == "".join(WORDS)
    assert daemon.log.count("writer_replaced") == 3


# ── 2. a prompt answered with 202 is run once ────────────────────────────────────────────────


@pytest.mark.parametrize("moment", ["queued", "dispatching", "running"])
async def test_a_prompt_that_was_accepted_is_run_once_whenever_the_daemon_dies(
    daemon: DaemonProcess, client: Client, folder: Path, moment: str
):
    session = await session_in(client, folder)
    proof = folder / "ran"
    script = [{"run": ["sh", "-c", f"echo x >> {proof}"]}, {"text": "done"}]
    task_id = await say(client, session, script)
    await until(client, session, becomes(task_id, moment))
    await kill_and_start(daemon)
    task = await ended(client, task_id)
    assert (task.status, proof.read_text()) == ("completed", "x\n")


async def test_prompts_that_wait_are_run_in_order_after_the_daemon_was_killed(
    daemon: DaemonProcess, client: Client, folder: Path
):
    session = await session_in(client, folder)
    first = await say(client, session, [ASK])
    await until(client, session, becomes(first, "awaiting_permission"))
    waiting = [await say(client, session, f"say {number}. ") for number in range(5)]
    await kill_and_start(daemon)
    await soon(client.stop_task(first))
    for task_id in waiting:
        assert (await ended(client, task_id)).status == "completed"
    assert await spoken(client, session) == "say 0. say 1. say 2. say 3. say 4. "


# ── 3. executors go on without a daemon ──────────────────────────────────────────────────────


async def test_an_executor_goes_on_without_a_daemon_and_no_event_is_missed(
    daemon: DaemonProcess, client: Client, folder: Path
):
    session = await session_in(client, folder)
    proof = folder / "went-on"
    half = len(SLOWLY) // 2
    script = [*SLOWLY[:half], {"run": ["touch", str(proof)]}, *SLOWLY[half:]]
    task_id = await say(client, session, script)
    await until(client, session, said("word5"))
    (executor,) = daemon.executors()
    await asyncio.to_thread(daemon.kill)
    async with asyncio.timeout(30):
        while not proof.exists():
            await asyncio.sleep(0.01)
    assert is_alive(executor.executor)
    await asyncio.to_thread(daemon.start)
    assert (await ended(client, task_id)).status == "completed"
    assert await spoken(client, session) == "".join(WORDS)
    task = await soon(client.task(task_id))
    assert task.executor_id is not None
    assert "executor_taken_back" in daemon.log


async def test_a_task_that_ends_while_there_is_no_daemon_has_ended_for_the_next_one(
    daemon: DaemonProcess, client: Client, folder: Path
):
    session = await session_in(client, folder)
    proof = folder / "over"
    task_id = await say(
        client, session,
        [{"text": "begin "}, {"delay_ms": 500}, {"text": "end"}, {"run": ["touch", str(proof)]}],
    )  # fmt: skip
    await until(client, session, said("begin"))
    await asyncio.to_thread(daemon.kill)
    async with asyncio.timeout(30):
        while not proof.exists():
            await asyncio.sleep(0.01)
    await asyncio.to_thread(daemon.start)
    assert (await ended(client, task_id)).status == "completed"
    assert await spoken(client, session) == "begin end"


# ── 4. an executor dies ──────────────────────────────────────────────────────────────────────


async def test_when_an_executor_is_killed_its_task_fails_and_the_session_takes_the_next_prompt(
    daemon: DaemonProcess, client: Client, folder: Path
):
    session = await session_in(client, folder)
    task_id = await say(client, session, SLOWLY)
    await until(client, session, said("word3"))
    (executor,) = daemon.executors()
    assert kill(executor.executor)
    task = await ended(client, task_id)
    assert task.status == "failed"
    assert task.error is not None
    assert "SIGKILL" in task.error.message
    assert task.error.hint is not None
    assert "task_started" in task.error.hint
    with sqlite3.connect(daemon.home.folder / "agor.db") as database:
        found = database.execute("SELECT COUNT(*) FROM tokens WHERE revoked_at IS NULL").fetchone()
    assert found == (0,)
    assert (await ended(client, await say(client, session, "next"))).status == "completed"


async def test_an_executor_that_died_while_there_was_no_daemon_is_reported_by_the_next_one(
    daemon: DaemonProcess, client: Client, folder: Path
):
    session = await session_in(client, folder)
    task_id = await say(client, session, SLOWLY)
    await until(client, session, said("word3"))
    (executor,) = daemon.executors()
    await asyncio.to_thread(daemon.kill)
    assert kill(executor.executor)
    await asyncio.to_thread(daemon.start)
    task = await ended(client, task_id)
    assert task.status == "failed"
    assert task.error is not None
    assert "SIGKILL" in task.error.message
    assert (await ended(client, await say(client, session, "next"))).status == "completed"


# ── 5. stop leaves nobody ────────────────────────────────────────────────────────────────────


async def test_a_stop_that_the_daemon_did_not_live_to_see_is_carried_out_by_the_next_one(
    daemon: DaemonProcess, client: Client, folder: Path
):
    session = await session_in(client, folder)
    hidden = folder / "hidden"
    # It does not listen, so that the stop takes long enough to be interrupted.
    script = (
        f"trap '' TERM INT; setsid nohup sleep 977 & echo $! > {hidden}; while :; do sleep 1; done"
    )
    task_id = await say(client, session, [{"run": ["sh", "-c", script]}])
    async with asyncio.timeout(30):
        while not hidden.exists() or not hidden.read_text():
            await asyncio.sleep(0.01)
    assert (await soon(client.stop_task(task_id, reason="enough"))).status == "stopping"
    await kill_and_start(daemon)
    task = await ended(client, task_id)
    assert (task.status, task.survivors) == ("stopped", 0)
    with pytest.raises(ProcessLookupError):
        os.kill(int(hidden.read_text()), 0)


# ── 6. approvals survive ─────────────────────────────────────────────────────────────────────


async def test_a_pending_approval_survives_and_is_answered_once(
    daemon: DaemonProcess, client: Client, folder: Path
):
    session = await session_in(client, folder)
    proof = folder / "ran"
    script = [ASK, {"run": ["sh", "-c", f"echo x >> {proof}"]}]
    task_id = await say(client, session, script)
    asked = await until(client, session, lambda event: event.type == "permission")
    permission_id = asked.data["permission_id"]
    await kill_and_start(daemon)
    pending = [each.permission_id async for each in client.permissions(status="pending")]
    assert pending == [permission_id]
    assert (await soon(client.task(task_id))).status == "awaiting_permission"
    assert (await soon(client.decide(permission_id, approved=True))).status == "approved"
    with pytest.raises(Conflict):
        await soon(client.decide(permission_id, approved=False))
    with pytest.raises(NotFound):
        await soon(client.decide("01a1e227-890b-702a-bc46-85ffcc56a09e", approved=True))
    assert (await ended(client, task_id)).status == "completed"
    assert proof.read_text() == "x\n"


async def stop(daemon: DaemonProcess, client: Client, task_id: str) -> None:
    await soon(client.stop_task(task_id))


async def kill_executor(daemon: DaemonProcess, client: Client, task_id: str) -> None:
    (executor,) = daemon.executors()
    assert kill(executor.executor)


async def kill_keeper(daemon: DaemonProcess, client: Client, task_id: str) -> None:
    (executor,) = daemon.executors()
    assert kill(executor.keeper)


async def kill_executor_without_daemon(daemon: DaemonProcess, client: Client, task_id: str) -> None:
    (executor,) = daemon.executors()
    await asyncio.to_thread(daemon.kill)
    assert kill(executor.executor)
    await asyncio.to_thread(daemon.start)


async def stop_and_kill_daemon(daemon: DaemonProcess, client: Client, task_id: str) -> None:
    await soon(client.stop_task(task_id))
    await kill_and_start(daemon)


@pytest.mark.parametrize(
    "end_it", [stop, kill_executor, kill_keeper, kill_executor_without_daemon, stop_and_kill_daemon]
)
async def test_nothing_follows_the_last_event_of_a_task_that_ended_with_an_open_question(
    daemon: DaemonProcess,
    client: Client,
    folder: Path,
    end_it: Callable[[DaemonProcess, Client, str], Awaitable[None]],
):
    session = await session_in(client, folder)
    task_id = await say(client, session, [ASK])
    await until(client, session, becomes(task_id, "awaiting_permission"))
    await end_it(daemon, client, task_id)
    task = await ended(client, task_id)
    next_one = await say(client, session, "next")
    events: list[FeedEvent] = []
    async with asyncio.timeout(30):
        async for event in client.follow(session):
            events.append(event)
            if becomes(next_one, "completed")(event):
                break
    told = [event for event in events if event.task_id == task_id]
    assert (told[-1].type, told[-1].data["status"]) == ("task", task.status)
    answers = [event.data["status"] for event in told if event.type == "permission"]
    assert answers == ["pending", "cancelled"]


async def test_an_answer_reaches_the_agent_even_if_the_daemon_dies_with_it(
    daemon: DaemonProcess, client: Client, folder: Path
):
    session = await session_in(client, folder)
    task_id = await say(client, session, [ASK, {"text": "went on"}])
    asked = await until(client, session, lambda event: event.type == "permission")
    (executor,) = daemon.executors()
    # It cannot hear the answer before the daemon is dead.
    os.kill(executor.executor.pid, 19)
    await soon(client.decide(asked.data["permission_id"], approved=True))
    await asyncio.to_thread(daemon.kill)
    os.kill(executor.executor.pid, 18)
    await asyncio.to_thread(daemon.start)
    assert (await ended(client, task_id)).status == "completed"
    assert await spoken(client, session) == "went on"


# ── 7. no secret ─────────────────────────────────────────────────────────────────────────────


async def test_no_secret_is_in_a_file_an_environment_or_an_argv(
    daemon: DaemonProcess, client: Client, folder: Path
):
    session = await session_in(client, folder)
    script = [{"key": "ANTHROPIC_API_KEY"}]
    task = await ended(client, await say(client, session, script))
    assert (task.status, task.error and task.error.code) == ("failed", "no_such_credential")
    await say(client, session, [ASK])
    await until(client, session, lambda event: event.type == "permission")
    secret = daemon.token.encode()
    for path in daemon.home.folder.rglob("*"):
        if path.is_file() and path != daemon.home.token_file:
            assert secret not in path.read_bytes(), path
    for process in daemon.everything():
        for name in ("environ", "cmdline"):
            try:
                seen = Path(f"/proc/{process.pid}/{name}").read_bytes()
            except OSError:
                continue
            assert secret not in seen

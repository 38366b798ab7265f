"""Feed parity: whoever was cut off or slow, and whoever asks afterwards, holds the same state.

Live state = replayed state = what the API shows, for any script, over both transports.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agor.client import Client
from agor.errors import Conflict
from agor.protocol.api import Message, Messages
from agor.protocol.conversation import Conversation
from tests.integration.daemon.daemon_process import DaemonProcess, running_daemon
from tests.integration.daemon.followers import (
    ClientFollower,
    Follower,
    Plan,
    SseFollower,
    is_over,
)  # fmt: skip

PATIENCE = 60.0

texts = st.text(max_size=40)
inputs = st.dictionaries(st.text(max_size=5), st.none() | st.integers() | texts, max_size=3)
steps = st.one_of(
    st.fixed_dictionaries({"text": texts}),
    st.fixed_dictionaries({"thinking": texts}),
    st.fixed_dictionaries(
        {
            "tool": st.fixed_dictionaries(
                {"name": st.text(min_size=1, max_size=8), "output": texts},
                optional={"input": inputs, "ask": st.booleans()},
            )
        }
    ),
    st.sampled_from(
        [
            {"run": ["sh", "-c", "echo out; echo err >&2"]},
            {"run": ["sh", "-c", "printf '\\377\\n\\r\\n\\303'; exit 3"]},
            {"run": ["no-such-program"]},
            {"key": "NO_SUCH_KEY"},
            {"fail": "it failed"},
            {"crash": 9},
        ]
    ),
    st.builds(
        lambda events, size: {"flood": {"events": events, "bytes": size}},
        st.integers(0, 200),
        st.integers(0, 50),
    ),
)
#: More than all buffers on the way hold, so that who does not read falls behind.
HUGE = {"flood": {"events": 1500, "bytes": 4000}}
scripts = st.lists(steps, min_size=1, max_size=5) | st.tuples(st.just(HUGE), steps).map(list)
decisions = st.sampled_from([{}, {"input": {"changed": "✓"}}, {"deny": None}, {"deny": "no: 無"}])
plans = st.builds(
    Plan,
    transport=st.sampled_from(["websocket", "sse"]),
    cuts=st.lists(st.integers(1, 60), max_size=4).map(tuple),
    stalls_after=st.none() | st.integers(0, 40),
)


@dataclass(frozen=True)
class Case:
    """One session: what its tasks do, what a person does, who follows, who asks."""

    scripts: list[list[dict[str, Any]]]
    decisions: list[dict[str, Any]]
    #: After these events, whichever task they were of is stopped.
    stops: set[int]
    plans: list[Plan]
    page_sizes: list[int]


cases = st.builds(
    Case,
    scripts=st.lists(scripts, min_size=1, max_size=3),
    decisions=st.lists(decisions, min_size=1, max_size=4),
    stops=st.sets(st.integers(5, 60) | st.integers(60, 3000), max_size=2),
    # A few are told at once, more of them in turns.
    plans=st.lists(plans, min_size=1, max_size=4) | st.lists(plans, min_size=10, max_size=12),
    page_sizes=st.lists(st.integers(1, 7), min_size=1, max_size=4),
)


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    with running_daemon({"execution.max_executors": 20}) as running:
        yield running


@pytest.mark.timeout(300)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases)
async def test_everybody_holds_the_same_state(daemon: DaemonProcess, case: Case) -> None:
    async with asyncio.timeout(PATIENCE), daemon.client() as client:
        session = await client.create_session("scripted", "/tmp", title="parity")
        name, count, over = session.session_id, len(case.scripts), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            followers = [
                group.create_task(follower_of(daemon, name, plan).run(count, over))
                for plan in case.plans
            ]
            group.create_task(attend(client, name, case))
            peeking = group.create_task(peek(client, name, over))
            tasks = [
                (await client.prompt(name, json.dumps(script))).task_id for script in case.scripts
            ]
            for task in tasks:
                await client.wait_task(task)
            over.set()
        replayed, passed = await replay(client, name, count, set(peeking.result()))
        for follower in followers:
            assert state_of(follower.result()) == state_of(replayed)
        assert state_of(replayed) == await state_told(client, name, case.page_sizes)
        for sequence, shown in peeking.result().items():
            # A page holds so many blocks at most; it is of one moment.
            assert shown == passed[sequence][-len(shown) :]
        await client.delete_session(name)


def follower_of(daemon: DaemonProcess, session_id: str, plan: Plan) -> Follower:
    kind = ClientFollower if plan.transport == "websocket" else SseFollower
    return kind(daemon, session_id, plan)


async def attend(client: Client, session_id: str, case: Case) -> None:
    """Be the person: answer every question as it comes, and stop tasks."""
    state, asked = Conversation(), 0
    async with client.follow(session_id) as feed:
        while not is_over(state, len(case.scripts)):
            event = await anext(feed)
            state.take(event)
            # What it is about may have ended meanwhile.
            with contextlib.suppress(Conflict):
                if event.type == "permission" and event.data["status"] == "pending":
                    decision = case.decisions[asked % len(case.decisions)]
                    asked += 1
                    await client.decide(
                        event.data["permission_id"],
                        "deny" not in decision,
                        reason=decision.get("deny"),
                        updated_input=decision.get("input"),
                    )
                if event.sequence in case.stops and event.task_id is not None:
                    await client.stop_task(event.task_id)


async def peek(client: Client, session_id: str, over: asyncio.Event) -> dict[int, list[Message]]:
    """Look at the conversation while it goes on; by how far in the feed that was."""
    seen: dict[int, list[Message]] = {}
    while not over.is_set():
        page = await client.messages(session_id, limit=200)
        seen[page.sequence] = page.items
    return seen


async def replay(
    client: Client, session_id: str, tasks: int, wanted: set[int]
) -> tuple[Conversation, dict[int, list[Message]]]:
    """Follow from the beginning to the end; also the blocks as they were after some events."""
    state, passed = Conversation(), {}
    async with client.follow(session_id) as feed:
        while not is_over(state, tasks):
            state.take(await anext(feed))
            if state.sequence in wanted:
                passed[state.sequence] = state.messages
    return state, passed


def state_of(state: Conversation) -> dict[str, Any]:
    return {
        "sequence": state.sequence,
        "session": state.session,
        "tasks": {name: msgspec.to_builtins(task) for name, task in state.tasks.items()},
        "permissions": state.permissions,
        "messages": state.messages,
    }


async def state_told(client: Client, session_id: str, page_sizes: list[int]) -> dict[str, Any]:
    """The same state, as the API tells it."""
    messages: list[Message] = []
    page: Messages | None = None
    pages = 0
    while page is None or page.next_cursor is not None:
        size = page_sizes[pages % len(page_sizes)]
        cursor = None if page is None else page.next_cursor
        page = await client.messages(session_id, cursor=cursor, limit=size)
        assert len(page.items) <= size
        messages = [*page.items, *messages]
        pages += 1
    tasks = {task.task_id: msgspec.to_builtins(task) async for task in client.tasks(session_id)}
    for task in tasks.values():
        del task["prompt"]
    return {
        "sequence": page.sequence,
        "session": await client.session(session_id),
        "tasks": tasks,
        "permissions": {
            asked.permission_id: asked
            async for asked in client.permissions()
            if asked.session_id == session_id
        },
        "messages": messages,
    }

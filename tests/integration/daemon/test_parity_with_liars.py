"""Feed parity with executors that say anything: the same rules on both sides, and no exception."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from agor.daemon.store.base import EventRun, Write
from agor.protocol.api import Message
from agor.protocol.conversation import Conversation, read_event
from agor.protocol.methods import ExecutePromptParams
from tests.integration.daemon.followers import is_over
from tests.integration.daemon.hostile import Hostile
from tests.integration.daemon.in_process import PATIENCE, Desk, Reader, desk_in, soon

block_ids = st.sampled_from(["a", "b", "PROMPT"])
starts = st.fixed_dictionaries(
    {"block_id": block_ids, "kind": st.sampled_from(["text", "tool_use", "user_message"])},
    optional={"tool_input": st.just({"x": [1, None]}), "tool_name": st.text(max_size=3)},
)
deltas = st.fixed_dictionaries(
    {"block_id": block_ids, "index": st.integers(-1, 2), "text": st.text(max_size=5)}
)
updates = st.fixed_dictionaries(
    {"block_id": block_ids},
    optional={
        "status": st.sampled_from([None, "running", "failed"]),
        "tool_input": st.sampled_from([None, {}, {"y": 1}]),
        "reason": st.none() | st.text(max_size=3),
    },
)
completions = st.fixed_dictionaries(
    {"block_id": block_ids, "deltas": st.just(0), "length": st.integers(0, 9)},
    optional={"is_error": st.booleans()},
)
#: Deltas are stored as they come: these are JSON, and not much else.
ODD = [
    "null", "[]", '"text"', "{}", '{"block_id":"a"}', '{"block_id":"a","index":0}',
    '{"block_id":"a","index":0,"text":null}', '{"block_id":7,"index":0,"text":"x"}',
    '{"block_id":"a","index":0.0,"text":"x"}', '{"block_id":"a","index":true,"text":"x"}',
    '{"block_id":"a","index":0,"text":"1","text":"2"}',
    '{"block_id":"a","index":0,"text":"\\u0000"}',
    '{"block_id":"a","index":0,"text":"x","more":1e999}',
    '{"block_id":"a","index":1e999,"text":"x"}',
    f'{{"block_id":"a","index":0,"text":"x","more":{"9" * 5000}}}',
    f'{{"block_id":"a","index":{"9" * 5000},"text":"x"}}',
    f'{{"block_id":"a","index":0,"text":"x","more":{"[" * 100}{"]" * 100}}}',
    ' {\t"block_id" :\r"a" , "index": 0, "text": "\\ud83d\\ude00" } ',
]  # fmt: skip
events = st.lists(
    st.tuples(st.just("block_start"), starts)
    | st.tuples(st.just("block_delta"), deltas | st.sampled_from(ODD))
    | st.tuples(st.just("block_update"), updates)
    | st.tuples(st.just("block_complete"), completions),
    max_size=25,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(told=events, ends=st.booleans(), size=st.integers(1, 4))
@example(
    # The first block is of another page than the one that took over its name.
    told=[
        ("block_start", {"block_id": "a", "kind": "text"}), ("block_delta", ODD[10]),
        ("block_start", {"block_id": "a", "kind": "text"}), ("block_delta", ODD[10]),
        ("block_complete", {"block_id": "a", "deltas": 1, "length": 1}), ("block_delta", ODD[10]),
        ("block_update", {"block_id": "a", "status": "failed"}),
    ],
    ends=True,
    size=1,
)  # fmt: skip
async def test_what_a_liar_says_is_the_same_from_the_feed_and_from_the_store(
    told: list[tuple[str, Any]], ends: bool, size: int
) -> None:
    async def lie(executor: Hostile, params: ExecutePromptParams) -> None:
        prompt = f"{params.task_id}-prompt"
        for sequence, (kind, data) in enumerate(told, 1):
            text = data.encode() if isinstance(data, str) else msgspec.json.encode(data)
            raw = Raw(text.replace(b'"PROMPT"', f'"{prompt}"'.encode()))
            executor.report(params, sequence, event_type=kind, event_data=raw)
        if ends:
            executor.end(params, len(told) + 1)
        else:
            # That is its end, too.
            executor.report(params, len(told) + 1, session_token="forged")

    with tempfile.TemporaryDirectory(prefix="agor-") as folder:
        async with desk_in(Path(folder), lambda: Hostile(lie)) as desk:
            session = await desk.session()
            task = await desk.prompt(session, "hello")
            state = await folded(desk, session)
            assert state.tasks[task].status == ("completed" if ends else "failed")
            assert await paged(desk, session, size) == state.messages
            assert state.messages[0].text == "hello"


async def test_what_was_told_just_before_the_end_belongs_to_its_block(folder: Path) -> None:
    async def break_off(executor: Hostile, params: ExecutePromptParams) -> None:
        start = {"block_id": "a", "kind": "text"}
        delta = {"block_id": "a", "index": 0, "text": "last words"}
        executor.report(params, 1, start, event_type="block_start")
        executor.report(params, 2, delta, event_type="block_delta")
        executor.report(params, 3, session_token="forged")

    async with desk_in(folder, lambda: Hostile(break_off)) as desk:
        hold = SlowStore(desk)
        session = await desk.session()
        task = await desk.prompt(session, "hello")
        # Its executor is ended, and so is the task, while its words are still being stored.
        await hold.until_ended(task)
        state = await folded(desk, session)
        assert [message.text for message in state.messages] == ["hello", "last words"]
        assert await paged(desk, session, 10) == state.messages


class SlowStore:
    """Holds the commit of a task's last words back, until the task is about to be ended."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._commit = desk.daemon.store.commit
        self._held: Sequence[EventRun] = ()
        self._go_on = asyncio.Event()
        desk.daemon.store.commit = self._hold  # type: ignore[method-assign]

    async def _hold(self, write: Write) -> None:
        if any(b"last words" in body for run in write.events for body in run.bodies):
            self._held = write.events
            await self._go_on.wait()
        await self._commit(write)

    async def until_ended(self, task_id: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not any(b'"failed"' in body for body in self._on_their_way(task_id)):
                    await asyncio.sleep(0.001)
        finally:
            self._go_on.set()

    def _on_their_way(self, task_id: str) -> list[bytes]:
        run = self._desk.daemon.runs.get(task_id)
        last = None if run is None else run.live.channel.line.last
        return [
            *(body for run in self._held for body in run.bodies),
            *(last.events if last else ()),
        ]


async def folded(desk: Desk, session: str) -> Conversation:
    """The state from the feed, once its one task has ended."""
    channel = await soon(desk.daemon.feed.open(desk.who, session, 0))
    reader, state = Reader(0), Conversation()
    running = asyncio.create_task(reader.run(channel))
    async with asyncio.timeout(PATIENCE):
        while not is_over(state, 1):
            state.take(read_event(await reader._queue.get()))
    running.cancel()
    await asyncio.wait((running,))
    return state


async def paged(desk: Desk, session: str, size: int) -> list[Message]:
    """The conversation, page by page."""
    found: list[Message] = []
    cursor = None
    while True:
        page = await soon(desk.daemon.conversations.page(desk.who, session, cursor, size))
        found = [*page.items, *found]
        cursor = page.next_cursor
        if cursor is None:
            return found

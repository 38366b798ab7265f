"""Odd things in what an executor says: its task ends, and its session has a future."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw, Struct

from agor.errors import InvalidParams
from agor.protocol.methods import ExecutePromptParams
from agor.protocol.validation import Method
from tests.integration.daemon.asker import Asker, acting
from tests.integration.daemon.hostile import Act, Hostile
from tests.integration.daemon.in_process import Desk, desk_in, soon
from tests.store.postgres_server import PostgresServer


def saying(*events: tuple[str, bytes]) -> Act:
    """Make an executor that reports these events as they are spelled, and the end of its task."""

    async def act(executor: Hostile, params: ExecutePromptParams) -> None:
        for sequence, (kind, data) in enumerate(events, 1):
            executor.report(params, sequence, event_type=kind, event_data=Raw(data))
        executor.end(params, len(events) + 1)

    return act


async def check(desk: Desk, *, fine: bool) -> None:
    """The task of an odd executor ends as it should, the next one is done, both can be shown."""
    session = await desk.session()
    odd = await desk.ended(session, await desk.prompt(session, "x"))
    assert odd.status == ("completed" if fine else "failed"), odd.error
    assert fine or "broke the protocol" in (odd.error.message if odd.error else "")
    # An executor that was not ended for it would say it again.
    await soon(desk.daemon.executors.stop(session, "the test wants another one"))
    again = await desk.ended(session, await desk.prompt(session, "y"))
    assert again.status == "completed", again.error
    told = await desk.daemon.store.read("SELECT body FROM events")
    # What was taken is stored, to its end.
    assert sum(b'"type":"task_result"' in body for (body,) in told) == 1 + fine
    shown = [
        await soon(desk.daemon.conversations.page(desk.who, session, None, 200)),
        await soon(desk.daemon.tasks.page(desk.who, session, None, None, 10)),
    ]
    assert msgspec.json.encode(shown)


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def a_tool(tool_input: bytes) -> bytes:
    return b'{"block_id":"a","kind":"tool_use","tool_input":{"a":%b}}' % tool_input


def a_result(members: bytes) -> bytes:
    return b'{"status":"completed","message_count":1,"token_usage":{}%b}' % members


REFUSED = {
    # A carriage return makes us read and write what else is passed on as it is.
    "cr, long number": ("block_delta", b'{"a":\r%b}' % (b"9" * 5000)),
    "cr, nested": ("block_delta", b'{"a":\r%b}' % nested(20000)),
    "cr, infinite": ("block_delta", b'{"a":\r1e999}'),
    "cr, half a character": ("block_delta", b'{"a":\r"\\ud800"}'),
    "cr, other half": ("block_delta", b'{"a":\r"\\udc00x"}'),
    "half a character": ("block_start", b'{"block_id":"\\ud800x","kind":"text"}'),
    "other half": ("block_start", b'{"block_id":"\\udc00","kind":"text"}'),
    "half a name": ("metadata_update", b'{"agent_session_id":"\\udc00"}'),
    "true for a number": ("block_complete", b'{"block_id":"a","deltas":true,"length":1}'),
    "negative": ("block_complete", b'{"block_id":"a","deltas":-1,"length":-9223372036854775809}'),
    "result, long count": ("task_result", a_result(b',"message_count":%b' % (b"9" * 400))),
    "result, half a name": ("task_result", a_result(b',"agent_session_id":"\\udc00"')),
}
#: Odd, and as good as any.
TAKEN = {
    "nested input": ("block_start", a_tool(nested(900))),
    "long number in input": ("block_start", a_tool(b"9" * 3000)),
    "much usage": ("metadata_update", b'{"usage":{"input":%b}}' % (b"9" * 400)),
    "result, large cost": ("task_result", a_result(b',"cost":1e308')),
    "result, cr": ("task_result", a_result(b"\r")),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_events_that_cannot_be_taken_end_their_task(folder: Path, name: str):
    async with desk_in(folder, acting(saying(REFUSED[name]))) as desk:
        await check(desk, fine=False)


@pytest.mark.parametrize("name", TAKEN)
async def test_odd_events_that_can_be_taken_harm_nobody(folder: Path, name: str):
    async with desk_in(folder, acting(saying(TAKEN[name]))) as desk:
        await check(desk, fine=True)


TOOL = ("block_start", a_tool(b"1"))
NUL = {
    "name": saying(("metadata_update", b'{"agent_session_id":"a\\u0000b"}')),
    "result": saying(("task_result", a_result(b',"agent_session_id":"a\\u0000b"'))),
    "block": saying(("block_start", b'{"block_id":"a\\u0000b","kind":"text"}')),
    "reason": saying(
        TOOL, ("block_update", b'{"block_id":"a","status":"denied","reason":"no\\u0000"}')
    ),
}


@pytest.mark.parametrize("where", NUL)
async def test_postgresql_has_no_nul_and_executors_may_say_one(
    folder: Path, postgres: PostgresServer, where: str
):
    url = await postgres.empty_database()
    async with desk_in(folder, acting(NUL[where]), database__url=url) as desk:
        # A name has to be kept as it is; of a reason, what can be kept is enough.
        await check(desk, fine=where == "reason")


@pytest.mark.parametrize("kind", ["metadata_update", "task_result"])
async def test_an_absurd_name_of_a_conversation_does_not_spoil_the_prompts_after_it(
    folder: Path, kind: str
):
    """It would go to the executor with each of them, in one line, and lines have a bound."""
    name = b'"agent_session_id":"%b"' % (b"x" * 60000)
    data = b"{%b}" % name if kind == "metadata_update" else a_result(b",%b" % name)
    act = saying((kind, data))
    async with desk_in(folder, acting(act), execution__max_line_bytes=65536) as desk:
        session = await desk.session()
        await desk.ended(session, await desk.prompt(session, "x"))
        await soon(desk.daemon.executors.stop(session, "the test wants another one"))
        again = await desk.ended(session, await desk.prompt(session, "y" * 6000))
        assert again.status == "completed", again.error


# ── questions ────────────────────────────────────────────────────────────────────────────────


class OddQuestion(Struct):
    """A question whose input is spelled by the test."""

    session_token: str
    task_id: str
    tool_input: Raw
    request_id: str = "r"
    tool_name: str = "Write"


ODD_QUESTION: Method[OddQuestion, Any] = Method("request_permission", OddQuestion, dict)


def ask_oddly(
    executor: Hostile, params: ExecutePromptParams, tool_input: bytes
) -> asyncio.Task[dict[str, Any]]:
    odd = OddQuestion(params.session_token, params.task_id, Raw(tool_input))
    return asyncio.create_task(executor.peer.call(ODD_QUESTION, odd))


@pytest.mark.parametrize(
    "tool_input",
    [b'{"a":%b}' % (b"9" * 3000), b'{"a":%b}' % nested(900), b'{"a\\u0000":"\\u0000"}'],
    ids=["long number", "nested", "nul"],
)
async def test_an_odd_question_can_be_shown_and_answered(folder: Path, tool_input: bytes):
    asker = Asker()
    async with desk_in(folder, asker.make) as desk:
        executor, params = await asker.task_of(desk)
        call = ask_oddly(executor, params, tool_input)
        asked = await desk.asked(params.session_id)
        found = await soon(desk.daemon.permissions.page(desk.who, None, "pending", None, 10))
        assert msgspec.json.encode(found)
        await desk.decide(asked.permission_id, approved=True)
        assert (await soon(call))["approved"]


@pytest.mark.parametrize(
    "tool_input", [b'{"a":%b}' % (b"9" * 5000), b'{"a":1e999}'], ids=["long number", "infinite"]
)
async def test_a_question_that_cannot_be_read_is_refused_and_its_task_goes_on(
    folder: Path, tool_input: bytes
):
    asker = Asker()
    async with desk_in(folder, asker.make) as desk:
        executor, params = await asker.task_of(desk)
        with pytest.raises(InvalidParams):
            await soon(ask_oddly(executor, params, tool_input))
        executor.end(params, 1)
        ended = await desk.ended(params.session_id, params.task_id)
        assert ended.status == "completed"

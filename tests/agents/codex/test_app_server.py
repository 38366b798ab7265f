"""The client of Codex's app-server, against a server that says whatever a test wants."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agor.agents.codex.app_server import AppServer, Message, ServerRefusedError
from agor.agents.codex.approvals import Approvals
from agor.agents.codex.telling import Telling
from agor.agents.turn import Turn
from agor.errors import AgentEnded, AgentFailed
from agor.protocol.events import Event, Log
from agor.protocol.methods import RequestPermissionResult
from tests.integration.daemon_side import prompt_params

#: Says the lines that it is asked to say, answers what it is asked, and tells what it was answered:
#: at once, or when it is asked to be quiet, after the next request.
_SERVER = """
import json, sys
quiet, held = False, []
for line in sys.stdin:
    heard = json.loads(line)
    params = heard.get("params") or {}
    for said in params.get("say", []):
        print(said, flush=True)
    if heard.get("method") == "die":
        sys.exit("there is no room left")
    if "method" not in heard:
        held.append(json.dumps({"method": "heard", "params": heard}))
    else:
        quiet = params.get("quiet", False)
    if "method" not in heard:
        pass
    elif heard["method"] == "fail":
        print(json.dumps({"id": heard["id"], "error": {"code": 1, "message": "no"}}), flush=True)
    elif "id" in heard and heard["method"] != "silence":
        print(json.dumps({"id": heard["id"], "result": {"did": heard["method"]}}), flush=True)
    while held and not quiet:
        print(held.pop(0), flush=True)
"""
REQUEST = json.dumps({"id": "r1", "method": "something/new", "params": {"threadId": "t"}})


@asynccontextmanager
async def started() -> AsyncIterator[AppServer]:
    async with asyncio.timeout(60):
        server = await AppServer.start([sys.executable, "-c", _SERVER], cwd="/", env={})
        try:
            yield server
        finally:
            await server.stop()


async def test_answers_come_to_whoever_asked():
    async with started() as server:
        answers = await asyncio.gather(*(server.call(f"m{n}", {}) for n in range(20)))
        assert [answer["did"] for answer in answers] == [f"m{n}" for n in range(20)]


async def test_a_refusal_is_an_error_and_the_next_question_is_answered():
    async with started() as server:
        with pytest.raises(ServerRefusedError, match="no"):
            await server.call("fail", {})
        assert await server.call("other", {}) == {"did": "other"}


async def test_a_server_that_does_not_answer_is_not_waited_for_without_end():
    async with started() as server:
        with pytest.raises(AgentFailed, match="did not answer silence within"):
            await server.call("silence", {}, timeout=0.1)


async def test_a_server_that_ends_fails_whoever_waits_with_its_last_words():
    async with started() as server:
        messages = server.listen()
        with pytest.raises(AgentEnded, match="there is no room left"):
            await server.call("die", {})
        assert await messages.get() is None
        assert server.ended


async def test_a_line_that_is_no_json_ends_the_server():
    async with started() as server:
        messages = server.listen()
        with pytest.raises(AgentEnded):
            await server.call("any", {"say": ["{not json"]})
        assert await messages.get() is None


async def test_what_is_asked_while_nobody_listens_is_refused():
    async with started() as server:
        await server.call("any", {"say": [REQUEST], "quiet": True})
        messages = server.listen()
        await server.call("more", {})
        heard = await messages.get()
        assert heard is not None
        assert heard.params["error"]["message"] == "no turn is going on"


async def test_a_question_that_nobody_knows_is_refused_and_told():
    told: list[Event] = []
    async with started() as server:
        messages = server.listen()
        await server.call("any", {"say": [REQUEST]})
        asked = await messages.get()
        assert asked is not None
        turn = turn_of(told)
        await Approvals(server, turn, Telling(turn, "t", {})).answer(asked)
        heard = await messages.get()
        assert heard is not None
        assert heard.params["id"] == "r1"
        assert heard.params["error"]["message"] == "agor does not answer this"
        assert [event.message for event in told if isinstance(event, Log)] == [
            "codex asked something/new, which agor refuses"
        ]


async def test_what_an_mcp_server_wants_to_know_is_declined():
    told: list[Event] = []
    params = {"threadId": "t", "turnId": "1", "serverName": "s", "mode": "url", "url": "http://x"}
    async with started() as server:
        messages = server.listen()
        turn = turn_of(told)
        asking = Message("mcpServer/elicitation/request", params, "r2")
        await Approvals(server, turn, Telling(turn, "t", {})).answer(asking)
        heard = await messages.get()
        assert heard is not None
        assert heard.params["result"]["action"] == "decline"


async def test_what_is_asked_is_what_is_allowed_and_not_what_the_call_began_with():
    asked: list[tuple[str, dict[str, Any]]] = []
    calls: list[dict[str, Any]] = [
        {"type": "commandExecution", "id": "c", "command": "bash -lc 'make all'", "cwd": "/w"},
        {"type": "mcpToolCall", "id": "r", "server": "s", "tool": "read", "arguments": {"n": 1}},
        {"type": "mcpToolCall", "id": "d", "server": "s", "tool": "delete", "arguments": {"n": 1}},
    ]
    about: dict[str, Any] = {"threadId": "t", "turnId": "1"}
    part = {"itemId": "c", "command": "bash -lc 'rm -rf /'", "cwd": "/", "kind": "stdin"}
    meta = {"codex_approval_kind": "mcp_tool_call", "tool_params": {"n": 1}}
    delete = {"serverName": "s", "_meta": meta, "message": 'May it run tool "delete"?'}
    other = {"serverName": "s", "_meta": meta, "message": 'May it run tool "else"?'}
    async with started() as server:
        messages = server.listen()
        turn = turn_of([], approved=True, asked=asked)
        telling = Telling(turn, "t", {})
        for item in calls:
            await telling.take(Message("item/started", {**about, "item": item}))
        approvals = Approvals(server, turn, telling)
        command = "item/commandExecution/requestApproval"
        await approvals.answer(Message(command, about | part, 1))
        for number, params in enumerate((delete, other), 2):
            asking = Message("mcpServer/elicitation/request", about | params, number)
            await approvals.answer(asking)
        answers = [await messages.get() for _ in range(3)]
    assert asked == [
        ("commandExecution", {"command": "rm -rf /", "cwd": "/", "kind": "stdin"}),
        ("mcp__s__delete", {"n": 1}),
    ]
    results = [each.params["result"] for each in answers if each is not None]
    assert [result.get("decision") or result["action"] for result in results] == [
        "accept", "accept", "decline",
    ]  # fmt: skip


@pytest.mark.parametrize("approved", [True, False])
async def test_more_rights_are_granted_for_the_turn_if_a_person_says_so(approved: bool):
    wanted = {"network": {"enabled": True}}
    params = {"threadId": "t", "turnId": "1", "itemId": "i", "cwd": "/", "permissions": wanted}
    async with started() as server:
        messages = server.listen()
        turn = turn_of([], approved=approved)
        asking = Message("item/permissions/requestApproval", params, "r3")
        await Approvals(server, turn, Telling(turn, "t", {})).answer(asking)
        heard = await messages.get()
        assert heard is not None
        assert heard.params["result"] == {
            "permissions": wanted if approved else {},
            "scope": "turn",
        }


def turn_of(
    told: list[Event],
    *,
    approved: bool = False,
    asked: list[tuple[str, dict[str, Any]]] | None = None,
) -> Turn:
    async def tell(event: Event) -> None:
        told.append(event)

    async def ask(name: str, given: dict[str, Any], _: str | None) -> RequestPermissionResult:
        if asked is not None:
            asked.append((name, given))
        return RequestPermissionResult(approved=approved)

    async def fetch_key(*_: str) -> Any:
        raise AssertionError("no key is needed")

    return Turn(prompt_params("hello", "task"), tell, ask, fetch_key)

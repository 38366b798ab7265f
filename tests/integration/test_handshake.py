"""The first words: initialize and ping, and how calls that make no sense are refused."""

from __future__ import annotations

import os
import pwd
from typing import Any

import msgspec
import pytest

import agor
from agor.errors import InvalidParams, MethodNotFound
from agor.protocol.methods import INITIALIZE, PROTOCOL_VERSION, InitializeParams
from agor.protocol.validation import Method
from tests.integration.daemon_side import Daemon, daemon, prompt_params
from tests.integration.wire import ack, prompt, request, wire


async def call(side: Daemon, method: str, params: Any) -> Any:
    """Call without the help of the declared forms."""
    return await side.peer.call(Method(method, Any, Any), params)


def test_ping_tells_the_time_in_milliseconds_and_nothing_else(executor):
    with wire(executor.path) as connection:
        connection.send(b'{"jsonrpc":"2.0","id":"1","method":"ping","params":{}}\n')
        answer = connection.read()
    assert set(answer) == {"jsonrpc", "id", "result"}
    assert answer["id"] == "1"
    assert set(answer["result"]) == {"pong", "timestamp"}
    assert answer["result"]["pong"] is True
    assert answer["result"]["timestamp"] > 1_600_000_000_000


async def test_initialize_tells_who_answers_and_what_it_can_do(executor, side):
    hello = await side.greet()
    assert hello.protocol_version == PROTOCOL_VERSION
    assert hello.pid == executor.pid
    assert hello.unix_user == pwd.getpwuid(os.getuid()).pw_name
    agents = {agent.name: agent for agent in hello.agents}
    scripted = agents["scripted"]
    assert (scripted.available, scripted.version) == (True, agor.__version__)
    assert all(agent.available or agent.why_not for agent in hello.agents)
    assert {"execute_prompt", "stop_task"} <= set(hello.capabilities)
    assert hello.tasks == []
    assert (await side.greet()).executor_id == hello.executor_id


async def test_a_newer_minor_version_is_welcome_and_another_major_is_refused(side):
    newer = InitializeParams(protocol_version="1.99", daemon_id="newer")
    assert (await side.peer.call(INITIALIZE, newer)).protocol_version == PROTOCOL_VERSION
    with pytest.raises(InvalidParams) as caught:
        await side.peer.call(INITIALIZE, InitializeParams(protocol_version="2.0", daemon_id="x"))
    assert caught.value.message.startswith("params.protocol_version: ")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("method", "params", "named"),
    [
        ("initialize", {}, "params.protocol_version"),
        ("initialize", {"protocol_version": "1.0"}, "params.daemon_id"),
        ("initialize", {"protocol_version": "one", "daemon_id": "d"}, "params.protocol_version"),
        ("stop_task", {"session_token": "t"}, "params.task_id"),
        ("stop_task", {"session_token": "", "task_id": "t"}, "params.session_token"),
        ("shutdown", {"timeout_ms": -1}, "params.timeout_ms"),
        ("shutdown", {"timeout_ms": "soon"}, "params.timeout_ms"),
        ("ack_messages", {"task_id": "t", "sequence": 0}, "params.sequence"),
    ],
)
async def test_wrong_params_name_the_field(side, method, params, named):
    with pytest.raises(InvalidParams) as caught:
        await call(side, method, params)
    assert caught.value.message.startswith(f"{named}: ")


@pytest.mark.parametrize(
    "field", ["session_token", "session_id", "task_id", "agentic_tool", "prompt", "cwd"]
)
async def test_a_prompt_without_a_required_field_names_it(side, field):
    params = msgspec.to_builtins(prompt_params("hello", "task-incomplete"))
    del params[field]
    with pytest.raises(InvalidParams, match=rf"params\.{field}: required, but missing"):
        await call(side, "execute_prompt", params)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("prompt", 5),
        ("task_id", ""),
        ("task_id", "x" * 257),
        ("stream", "yes"),
        ("permission_mode", "anything goes"),
        ("timeout_ms", 0),
        ("tools", {"a": 1}),
        ("cwd", "/no/such/folder"),
        ("cwd", "/etc/passwd"),
        pytest.param("cwd", "/" + "x" * 5000, id="cwd-too-long"),
        ("cwd", "/a\0b"),
        ("agentic_tool", "no-such-agent"),
    ],
)
async def test_a_prompt_with_a_wrong_field_names_it_and_starts_nothing(side, field, value):
    params = msgspec.to_builtins(prompt_params("hello", f"task-wrong-{field}"))
    with pytest.raises(InvalidParams) as caught:
        await call(side, "execute_prompt", params | {field: value})
    assert caught.value.message.startswith(f"params.{field}: ")
    assert side.messages == {}
    assert (await side.greet()).tasks == []


async def test_a_time_beyond_all_measure_is_refused_and_starts_nothing(own_executor):
    async with daemon(own_executor.path) as side:
        with pytest.raises(InvalidParams, match=r"^params\.timeout_ms: "):
            await side.prompt("hello", timeout_ms=10**400)
        with pytest.raises(InvalidParams, match=r"^params\.timeout_ms: "):
            await side.shutdown(10**400)
        assert (await side.greet()).tasks == []


async def test_an_unknown_agent_is_told_which_ones_there_are(side):
    with pytest.raises(InvalidParams) as caught:
        await side.prompt("hello", agentic_tool="clod")
    assert "'clod'" in caught.value.message
    assert "scripted" in str(caught.value.hint).removeprefix("Known agents: ")


async def test_an_unknown_method_is_refused_and_the_connection_goes_on(side):
    with pytest.raises(MethodNotFound, match="make_coffee"):
        await call(side, "make_coffee", {})
    assert (await side.ping()).pong


def test_lines_that_are_nonsense_do_not_disturb_the_others(executor):
    with wire(executor.path) as connection:
        connection.send(b'nonsense\n[]\n\n{"jsonrpc":"1.0"}\n\xff\xfe\n')
        connection.send(request(1, "ping"))
        codes = [connection.read()["error"]["code"] for _ in range(4)]
        assert codes == [-32700, -32600, -32600, -32700]
        assert connection.read()["id"] == 1


def test_a_caller_that_never_greets_gets_the_events_of_what_it_starts(executor):
    with wire(executor.path) as connection:
        connection.send(prompt(1, "hello", "task-of-a-stranger"))
        first = connection.read()
        assert first["method"] == "report_message"
        assert first["params"]["sequence"] == 1
        assert connection.read_until(id=1)["result"]["status"] == "completed"
        connection.send(ack("task-of-a-stranger", 7))

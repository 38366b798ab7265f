"""The methods: their names, their forms, and that no repr of them shows a secret."""

from __future__ import annotations

import base64
import io
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from rich.console import Console
from rich.pretty import pretty_repr

from agor.errors import InvalidParams
from agor.protocol import methods
from agor.protocol.forms import Form
from agor.protocol.mcp import McpServer
from agor.protocol.methods import (
    TO_DAEMON,
    TO_EXECUTOR,
    AckMessagesParams,
    ExecutePromptParams,
    GetApiKeyParams,
    GetApiKeyResult,
    InitializeParams,
    ReportMessageParams,
    RequestPermissionParams,
    ShutdownParams,
    StopTaskParams,
)
from agor.protocol.terminals import (
    MAX_INPUT,
    AckTerminalParams,
    AttachTerminalParams,
    AttachTerminalResult,
    ReportTerminalParams,
    ResizeTerminalParams,
    SpawnTerminalParams,
    TerminalInputParams,
)
from agor.protocol.validation import Method, Notice, ParamsReader

SECRET = "tok-very-secret"
TOO_MUCH = base64.b64encode(bytes(MAX_INPUT + 1))

SECRETIVE = [
    ExecutePromptParams(
        session_token=SECRET, session_id="s", task_id="t", agentic_tool="x", prompt="p", cwd="/"
    ),
    StopTaskParams(session_token=SECRET, task_id="t"),
    SpawnTerminalParams(terminal_id="t", cwd="/", env={"A_KEY": SECRET}),
    # People type passwords, and programs print what they were told.
    TerminalInputParams(terminal_id="t", data=SECRET.encode()),
    AttachTerminalResult(offset=0, data=SECRET.encode(), cols=1, rows=1),
    ReportTerminalParams(terminal_id="t", offset=0, data=SECRET.encode()),
    GetApiKeyParams(session_token=SECRET, credential_key="K"),
    GetApiKeyResult(api_key=SECRET),
    RequestPermissionParams(
        session_token=SECRET, task_id="t", request_id="r", tool_name="Bash", tool_input={}
    ),
    ReportMessageParams(SECRET, "t", 1, 0, "log", Raw(b"{}")),
]


def name_of(value: object) -> str:
    return type(value).__name__


@pytest.mark.parametrize("form", SECRETIVE, ids=name_of)
def test_no_way_to_show_a_form_shows_its_secret(form: Any):
    assert SECRET not in repr(form)
    assert SECRET not in str(form)
    assert SECRET not in f"{[form]} {form!r:.500}"


@pytest.mark.parametrize("form", SECRETIVE, ids=name_of)
def test_no_pretty_way_to_show_a_form_shows_its_secret(form: Any):
    assert SECRET not in pretty_repr(form)
    out = io.StringIO()
    Console(file=out, width=200).print(form, {"params": form})
    assert SECRET not in out.getvalue()


@pytest.mark.parametrize("form", SECRETIVE, ids=name_of)
def test_a_form_shows_what_is_not_secret_and_sends_all_of_it(form: Any):
    shown = repr(form)
    assert shown.startswith(f"{name_of(form)}(")
    for name in form.__struct_fields__:
        assert f"{name}=" in shown
    sent = msgspec.json.encode(form)
    assert SECRET.encode() in sent or base64.b64encode(SECRET.encode()) in sent


def test_every_form_that_holds_a_secret_is_among_those_tested():
    holding = {
        form
        for form in vars(methods).values()
        if isinstance(form, type)
        and issubclass(form, msgspec.Struct)
        and {"session_token", "api_key", "env", "data"} & set(form.__struct_fields__)
        and form is not McpServer  # it has a repr of its own
    }
    assert holding == {type(form) for form in SECRETIVE}


def test_the_methods_are_those_of_the_wire():
    assert {one.name for one in TO_EXECUTOR if isinstance(one, Method)} == {
        "initialize", "ping", "prepare_session", "execute_prompt", "stop_task", "read_transcript",
        "spawn_terminal", "attach_terminal", "resize_terminal", "close_terminal", "terminal_input",
        "shutdown",
    }  # fmt: skip
    assert {one.name for one in TO_EXECUTOR if isinstance(one, Notice)} == {
        "detach_terminal",
        "ack_terminal",
        "ack_messages",
        "assigned",
    }
    assert {one.name for one in TO_DAEMON if isinstance(one, Method)} == {
        "get_api_key",
        "request_permission",
    }
    assert {one.name for one in TO_DAEMON if isinstance(one, Notice)} == {
        "report_message",
        "report_terminal",
    }


@pytest.mark.parametrize(
    ("form", "raw", "named"),
    [
        (InitializeParams, b'{"protocol_version":"one","daemon_id":"d"}', "protocol_version"),
        (InitializeParams, b'{"protocol_version":"1.0"}', "daemon_id"),
        (InitializeParams, b'{"protocol_version":"1.0","daemon_id":""}', "daemon_id"),
        (AckMessagesParams, b'{"task_id":"t","sequence":0}', "sequence"),
        (AckMessagesParams, b'{"task_id":"t","sequence":1.5}', "sequence"),
        (AckMessagesParams, b'{"task_id":"t","sequence":true}', "sequence"),
        (ShutdownParams, b'{"timeout_ms":-1}', "timeout_ms"),
        (SpawnTerminalParams, b'{"terminal_id":"t","cwd":"/","cols":0}', "cols"),
        (SpawnTerminalParams, b'{"terminal_id":"t","cwd":""}', "cwd"),
        (SpawnTerminalParams, b'{"terminal_id":"t","cwd":"/","env":{"A":1}}', "env"),
        (SpawnTerminalParams, b'{"terminal_id":"","cwd":"/"}', "terminal_id"),
        (ResizeTerminalParams, b'{"terminal_id":"t","cols":1,"rows":10001}', "rows"),
        (AttachTerminalParams, b'{"terminal_id":"t","after":-1}', "after"),
        (AckTerminalParams, b'{"terminal_id":"t","offset":-1}', "offset"),
        (StopTaskParams, b'{"session_token":"","task_id":"t"}', "session_token"),
        (StopTaskParams, b'{"session_token":"%s","task_id":"t"}' % (b"x" * 1025), "session_token"),
        (TerminalInputParams, b'{"terminal_id":"t","data":"?"}', "data"),
        (TerminalInputParams, b'{"terminal_id":"t","data":"%s"}' % TOO_MUCH, "data"),
    ],
    ids=lambda part: getattr(part, "__name__", repr(part))[:50],
)
def test_what_is_out_of_bounds_is_refused_by_name(form: type, raw: bytes, named: str):
    with pytest.raises(InvalidParams, match=rf"^params\.{named}"):
        ParamsReader(form)(Raw(raw))


def test_an_event_is_passed_on_as_it_came():
    reader = ParamsReader(ReportMessageParams)
    event = b'{ "level":"info", "message":"\\u00fc" }'
    report = reader(
        Raw(
            b'{"session_token":"t","task_id":"t","sequence":1,"timestamp":2,"event_type":"log",'
            b'"event_data":' + event + b"}"
        )
    )
    assert bytes(report.event_data) == event


def test_defaults_are_not_shared_between_forms():
    made = [ParamsReader(SpawnTerminalParams)(Raw(b'{"terminal_id":"t","cwd":"/"}')) for _ in "ab"]
    made[0].env["A"] = "1"
    assert made[1].env == {}
    assert issubclass(SpawnTerminalParams, Form)

"""Items of Codex as tool calls, and its faults as errors."""

from __future__ import annotations

from typing import Any

import pytest

from agor.agents.codex.faults import fault_of, is_sure
from agor.agents.codex.items import (
    from_record,
    is_declined,
    is_failed,
    plain_command,
    result_text,
    tool_input,
)

DIFF = "@@ -1 +1 @@\n-x\n+y\n"


@pytest.mark.parametrize(
    ("command", "plain"),
    [
        ("/bin/bash -lc 'git log | head'", "git log | head"),
        ("/usr/bin/zsh -c ls", "ls"),
        ("bash -lc \"echo 'a b'\"", "echo 'a b'"),
        # What is no plain shell is told as it is: whoever allows it must see it.
        ("/tmp/bash -lc ls", "/tmp/bash -lc ls"),
        ("/bin/bash -lc ls more", "/bin/bash -lc ls more"),
        ("/bin/bash -ic ls", "/bin/bash -ic ls"),
        ("/bin/bash -lc 'unclosed", "/bin/bash -lc 'unclosed"),
    ],
)
def test_a_command_is_called_by_its_own_words(command: str, plain: str):
    assert plain_command(command) == plain


def test_changes_of_the_record_are_those_that_were_told_live():
    kept: dict[str, Any] = {
        "type": "FileChange", "id": "c", "status": "completed",
        "changes": {
            "/w/new": {"type": "add", "content": "a\n"},
            "/w/old": {"type": "delete", "content": "b\n"},
            "/w/here": {"type": "update", "unified_diff": DIFF, "move_path": "/w/there"},
        },
    }  # fmt: skip
    item = from_record(kept)
    assert item is not None
    moved = f"{DIFF}\n\nMoved to: /w/there"
    assert tool_input(item)["changes"] == [
        {"path": "/w/new", "kind": {"type": "add"}, "diff": "a\n"},
        {"path": "/w/old", "kind": {"type": "delete"}, "diff": "b\n"},
        {"path": "/w/here", "kind": {"type": "update", "move_path": "/w/there"}, "diff": moved},
    ]
    assert result_text(item) == "add /w/new\ndelete /w/old\nupdate /w/here"


def test_a_folder_of_the_record_is_a_path_again():
    kept = {
        "type": "CommandExecution", "id": "c", "command": ["/bin/bash", "-lc", "echo 'a b'"],
        "cwd": "file:///w/gr%C3%BCn%20tea", "status": "completed",
    }  # fmt: skip
    item = from_record(kept)
    assert item is not None
    assert tool_input(item) == {"command": "echo 'a b'", "cwd": "/w/grün tea"}


def test_a_tool_of_an_mcp_server_may_fail_be_denied_or_say_that_it_failed():
    call = {"type": "mcpToolCall", "id": "c", "server": "s", "tool": "t", "arguments": {}}
    denied = call | {"status": "failed", "error": {"message": "user rejected MCP tool call"}}
    broken = call | {"status": "failed", "error": {"message": "gone"}}
    said_no = call | {"status": "completed", "result": {"content": [], "isError": True}}
    assert [is_declined(item) for item in (denied, broken, said_no)] == [True, False, False]
    assert [is_failed(item) for item in (denied, broken, said_no)] == [True, True, True]


@pytest.mark.parametrize(
    ("info", "code", "sure"),
    [
        ("unauthorized", "bad_api_key", True),
        ({"responseStreamDisconnected": {"httpStatusCode": 401}}, "bad_api_key", True),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, "rate_limited", False),
        ({"responseStreamDisconnected": {"httpStatusCode": None}}, "provider_failed", False),
        ("contextWindowExceeded", "context_full", True),
        ("somethingNew", "provider_failed", False),
        (None, "provider_failed", False),
        ("sandboxError", "agent_failed", False),
    ],
)
def test_a_fault_has_a_code_and_never_the_key(info: object, code: str, sure: bool):
    error = {"message": "the key sk-secret is wrong", "codexErrorInfo": info}
    fault = fault_of(error, "sk-secret", "OPENAI_API_KEY")
    assert (fault.code, is_sure(fault)) == (code, sure)
    assert "sk-secret" not in fault.message

"""OpenCode's calls, models and records in our words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agor.agents.acp.calls import Call
from agor.agents.opencode.calls import needs_no_word, tool_input
from agor.agents.opencode.models import parse, provider_settings
from agor.agents.opencode.told import tell
from agor.errors import NoSuchModel


@pytest.mark.parametrize(
    ("tool", "given", "looks"),
    [
        ("read", {"filePath": "a.txt"}, True),
        ("read", {"filePath": "W/a/b.txt"}, True),
        ("read", {"filePath": "W/../x"}, False),
        ("read", {"filePath": "W/link/x"}, False),
        ("read", {"filePath": "/etc/passwd"}, False),
        ("read", {"filePath": "W/.env.local"}, False),
        ("read", {"filePath": 7}, False),
        ("glob", {"pattern": "**/*.py"}, True),
        ("glob", {"pattern": "../*"}, False),
        ("glob", {"pattern": "{../x,y}"}, False),
        ("glob", {"pattern": "*", "path": "/etc"}, False),
        ("grep", {"pattern": "/anything/../at/all"}, True),
        ("grep", {"pattern": "x", "path": "/etc"}, False),
        ("todowrite", {"todos": []}, True),
        ("task", {"subagent_type": "explore"}, True),
        ("task", {"subagent_type": "general"}, False),
        ("webfetch", {"url": "https://example.com"}, False),
        ("bash", {"command": "ls"}, False),
        ("greeter_greet", {}, False),
    ],
)
def test_only_what_looks_at_the_workspace_needs_no_word(
    tmp_path: Path, tool: str, given: dict[str, Any], looks: bool
):
    (tmp_path / "link").symlink_to("/etc")
    placed = {
        name: value.replace("W/", f"{tmp_path}/") if isinstance(value, str) else value
        for name, value in given.items()
    }
    call = Call("c", first_title=tool, raw_input=placed)
    assert needs_no_word(call, str(tmp_path)) == looks


def test_the_files_of_a_patch_are_told_so_that_modes_and_rules_can_judge_them():
    patch = "*** Begin Patch\n*** Add File: a.txt\n+a\n*** Update File: b\n*** Move to: /etc/c\n"
    told = tool_input("apply_patch", {"patchText": patch})
    assert [change["path"] for change in told["changes"]] == ["a.txt", "b", "/etc/c"]


@pytest.mark.parametrize(
    ("name", "credential"),
    [
        ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ("google/gemini-2.5-pro", "GEMINI_API_KEY"),
        ("open-router/meta/llama:free", "OPEN_ROUTER_API_KEY"),
    ],
)
def test_the_name_of_a_model_says_which_key_it_needs(name: str, credential: str):
    model = parse(name)
    assert (model.full_name, model.credential) == (name, credential)


@pytest.mark.parametrize(
    "name", ["", "claude", "/x", "x/", "a b/c", "x/y z", "x/{file:/etc/passwd}"]
)
def test_a_model_without_provider_is_none(name: str):
    with pytest.raises(NoSuchModel):
        parse(name)


@pytest.mark.parametrize(
    ("provider", "address", "told"),
    [
        ("anthropic", "https://a.example", "https://a.example/v1"),
        ("anthropic", "https://a.example/v1/", "https://a.example/v1"),
        ("openai", "https://a.example/v1", "https://a.example/v1"),
        ("google", "https://a.example", "https://a.example/v1beta"),
        ("mine", "https://a.example/x", "https://a.example/x"),
    ],
)
def test_addresses_are_kept_as_the_providers_own_agent_wants_them(
    provider: str, address: str, told: str
):
    assert provider_settings(provider, address, "k")["options"]["baseURL"] == told


def test_results_of_tools_side_by_side_stand_where_they_came():
    def call(name: str, start: int, end: int) -> dict[str, Any]:
        times = {"start": start, "end": end}
        state = {"status": "completed", "input": {}, "output": name, "time": times}
        return {"type": "tool", "tool": "bash", "callID": name, "state": state}

    parts = [
        {"type": "step-start"},
        {"type": "text", "text": "so ", "time": {"start": 1}},
        {"type": "text", "text": "be it", "time": {"start": 2}},
        call("slow", 3, 9),
        call("quick", 4, 5),
        {"type": "text", "text": "on", "time": {"start": 6}},
    ]
    told = tell([{"info": {"role": "assistant"}, "parts": parts}])
    assert [block.text or block.tool_use_id for block in told] == [
        "so be it", "slow", "quick", "quick", "on", "slow",
    ]  # fmt: skip

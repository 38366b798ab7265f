"""Tool servers of sessions over HTTP: set, changed, checked; only their names are shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api.serving import Served

HUB = {"command": "hub", "args": ["stdio"], "env": {"TOKEN": "${HUB_TOKEN}", "MODE": "quiet"}}
SEARCH = {"transport": "http", "url": "https://search.example.com", "headers": {"A": "b"}}


async def begin(served: Served, folder: Path, **members: Any) -> dict[str, Any]:
    form = {"agentic_tool": "scripted", "workspace": str(folder), **members}
    made = await served.ask.post("/sessions", json=form)
    shown: dict[str, Any] = made.json()
    return shown | {"http": made.status_code}


async def test_of_servers_only_the_names_are_shown(served: Served, tmp_path: Path):
    made = await begin(served, tmp_path, mcp_servers={"hub": HUB, "search": SEARCH})
    assert (made["http"], made["mcp_servers"]) == (201, ["hub", "search"])
    path = f"/sessions/{made['session_id']}"
    shown = await served.ask.get(path)
    assert shown.json()["mcp_servers"] == ["hub", "search"]
    assert "quiet" not in shown.text
    changed = await served.ask.patch(path, json={"mcp_servers": {"hub": HUB}})
    assert changed.json()["mcp_servers"] == ["hub"]
    kept = await served.ask.patch(path, json={"title": "another"})
    assert kept.json()["mcp_servers"] == ["hub"]
    gone = await served.ask.patch(path, json={"mcp_servers": {}})
    assert gone.json()["mcp_servers"] == []


@pytest.mark.parametrize(
    ("servers", "words"),
    [
        ({"hub": {}}, "mcp_servers.hub: a stdio server has a command"),
        ({"hub": HUB | {"url": "https://x"}}, "a stdio server has a command"),
        ({"hub": SEARCH | {"command": "hub"}}, "an http server has a url"),
        ({"hub": SEARCH | {"url": "file:///etc/passwd"}}, "is no address"),
        ({"no spaces": HUB}, "mcp_servers"),
        ({"hub": HUB | {"comand": "x"}}, "comand"),
    ],
)
async def test_what_could_never_work_is_refused(
    served: Served, tmp_path: Path, servers: dict[str, Any], words: str
):
    made = await begin(served, tmp_path, mcp_servers=servers)
    assert made["http"] == 422
    assert words in made["detail"]


async def test_an_agent_that_does_not_exist_is_refused_at_once(served: Served, tmp_path: Path):
    made = await begin(served, tmp_path, agentic_tool="claud-code")
    assert (made["http"], made["detail"]) == (422, "agentic_tool: there is no agent 'claud-code'")
    assert "claude-code" in made["hint"]

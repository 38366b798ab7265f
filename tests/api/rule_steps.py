"""Steps of the tests of permission rules: agents that ask, and what came of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx

from tests.api.serving import Served
from tests.contract.waiting import PATIENCE


def asks(tool: str = "Bash", **tool_input: Any) -> dict[str, Any]:
    """Make the step of a script that uses a tool after asking."""
    given = tool_input or {"command": "git status"}
    return {"tool": {"name": tool, "input": given, "output": f"{tool} ran", "ask": True}}


async def run(served: Served, session_id: str, *steps: dict[str, Any], **more: Any) -> str:
    """Have the scripted agent do something; gives the task."""
    body = {"prompt": json.dumps(steps), **more}
    answer = await served.ask.post(f"/sessions/{session_id}/prompt", json=body)
    assert answer.status_code == 202, answer.text
    task_id: str = answer.json()["task_id"]
    return task_id


async def make(served: Served, effect: str = "allow", **members: Any) -> dict[str, Any]:
    """Make a rule."""
    form = {"effect": effect, "tool": "Bash", "scope": "user", "input": {}, **members}
    if "exact_input" in form:
        del form["input"]
    answer = await served.ask.post("/permission-rules", json=form)
    assert answer.status_code == 201, answer.text
    rule: dict[str, Any] = answer.json()
    return rule


async def decide(served: Served, permission_id: str, **decision: Any) -> httpx.Response:
    """Answer a question."""
    return await served.ask.post(f"/permissions/{permission_id}/decision", json=decision)


async def pending(served: Served, count: int = 1) -> list[dict[str, Any]]:
    """Wait for open questions, and give them in the order they came."""
    async with asyncio.timeout(PATIENCE):
        while True:
            answer = await served.ask.get("/permissions?status=pending")
            items: list[dict[str, Any]] = answer.json()["items"]
            if len(items) >= count:
                return items[::-1]
            await asyncio.sleep(0.005)


async def questions_of(served: Served, task_id: str) -> list[dict[str, Any]]:
    """Wait for the end of a task, and give what it asked, in the order it did."""
    await served.finished(task_id)
    items: list[dict[str, Any]] = (await served.ask.get("/permissions?limit=200")).json()["items"]
    return [item for item in items[::-1] if item["task_id"] == task_id]


async def events(served: Served, session_id: str, kind: str) -> list[dict[str, Any]]:
    """Read what a session's feed has of one kind so far."""
    live = await served.daemon.lives.get(session_id)
    rows = await served.daemon.store.events(live.row.number, 0, 10_000, 100_000_000)
    found = [json.loads(body) for _, body in rows]
    return [event["data"] for event in found if event["type"] == kind]

"""Each resource over HTTP, as somebody with curl would use it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.api.serving import Served
from tests.contract.waiting import PATIENCE

ASKING = json.dumps([{"tool": {"name": "Bash", "input": {"a": 1}, "output": "x", "ask": True}}])


async def pending(served: Served) -> dict[str, Any]:
    """Wait for a permission request."""
    async with asyncio.timeout(PATIENCE):
        while True:
            items = (await served.ask.get("/permissions?status=pending")).json()["items"]
            if items:
                first: dict[str, Any] = items[0]
                return first
            await asyncio.sleep(0.005)


# ── sessions ─────────────────────────────────────────────────────────────────────────────────


async def test_a_session_is_begun_shown_changed_and_deleted(served: Served) -> None:
    session_id = await served.new_session(title="first")
    address = f"/sessions/{session_id}"
    shown = (await served.ask.get(address)).json()
    assert (shown["title"], shown["status"]) == ("first", "idle")
    changed = await served.ask.patch(address, json={"title": None, "model": "large"})
    assert changed.status_code == 200
    assert (changed.json()["title"], changed.json()["model"]) == (None, "large")
    assert (await served.ask.get(address)).json() == changed.json()
    deleted = await served.ask.delete(address)
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert "content-length" not in deleted.headers
    for method in ("GET", "DELETE"):
        assert (await served.ask.request(method, address)).status_code == 404


async def test_a_change_of_nothing_changes_nothing(served: Served) -> None:
    session_id = await served.new_session(title="same")
    before = (await served.ask.get(f"/sessions/{session_id}")).json()
    after = await served.ask.patch(f"/sessions/{session_id}", json={})
    assert after.json() == before


async def test_a_session_with_work_to_do_is_not_deleted(served: Served) -> None:
    session_id = await served.new_session()
    await served.prompt(session_id, ASKING)
    await pending(served)
    refused = await served.ask.delete(f"/sessions/{session_id}")
    assert refused.status_code == 409
    assert refused.json()["code"] == "conflict"


# ── tasks ────────────────────────────────────────────────────────────────────────────────────


async def test_a_prompt_is_taken_at_once_and_told_by_and_by(served: Served) -> None:
    session_id = await served.new_session()
    answer = await served.ask.post(f"/sessions/{session_id}/prompt", json={"prompt": "hello"})
    assert answer.status_code == 202
    task = await served.finished(answer.json()["task_id"])
    assert (task["status"], task["prompt"]) == ("completed", "hello")
    messages = (await served.ask.get(f"/sessions/{session_id}/messages")).json()
    assert [each["text"] for each in messages["items"]] == ["hello", "hello"]


async def test_waiting_tasks_are_moved_and_stopped(served: Served) -> None:
    session_id = await served.new_session()
    await served.prompt(session_id, ASKING)
    await pending(served)
    waiting = [await served.prompt(session_id, str(number)) for number in range(3)]
    moved = await served.ask.patch(f"/tasks/{waiting[2]}", json={"queue_position": 1})
    assert (moved.status_code, moved.json()["queue_position"]) == (200, 1)
    assert (await served.ask.get(f"/tasks/{waiting[0]}")).json()["queue_position"] == 2
    stopped = await served.ask.post(f"/tasks/{waiting[0]}/stop", json={"reason": "enough"})
    assert (stopped.status_code, stopped.json()["status"]) == (202, "stopped")
    again = await served.ask.post(f"/tasks/{waiting[0]}/stop")
    assert again.status_code == 409


async def test_a_running_task_is_stopped(served: Served) -> None:
    session_id = await served.new_session()
    task_id = await served.prompt(session_id, json.dumps([{"delay_ms": 60_000}]))
    async with asyncio.timeout(PATIENCE):
        while (await served.ask.get(f"/tasks/{task_id}")).json()["status"] != "running":
            await asyncio.sleep(0.005)
    stopping = await served.ask.post(f"/tasks/{task_id}/stop")
    assert (stopping.status_code, stopping.json()["status"]) == (202, "stopping")
    assert (await served.finished(task_id))["status"] == "stopped"


# ── permissions ──────────────────────────────────────────────────────────────────────────────


async def test_a_permission_is_asked_for_and_given_once(served: Served) -> None:
    session_id = await served.new_session()
    task_id = await served.prompt(session_id, ASKING)
    asked = await pending(served)
    assert (asked["tool_name"], asked["tool_input"]) == ("Bash", {"a": 1})
    address = f"/permissions/{asked['permission_id']}"
    assert (await served.ask.get(address)).json() == asked
    decided = await served.ask.post(
        f"{address}/decision", json={"approved": True, "reason": "fine"}
    )
    assert (decided.status_code, decided.json()["status"]) == (200, "approved")
    again = await served.ask.post(f"{address}/decision", json={"approved": False})
    assert again.status_code == 409
    assert (await served.ask.get(address)).json() == decided.json()
    assert (await served.finished(task_id))["status"] == "completed"


async def test_a_repeated_decision_with_its_key_is_the_same_decision(served: Served) -> None:
    await served.prompt(await served.new_session(), ASKING)
    asked = await pending(served)
    answers = [
        await served.ask.post(
            f"/permissions/{asked['permission_id']}/decision",
            json={"approved": True},
            headers={"idempotency-key": "once"},
        )
        for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].content == answers[1].content
    assert answers[1].headers["idempotency-replayed"] == "true"

"""Lists come in pages: nothing twice, nothing left out, whatever their size."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.serving import Served


async def walk(served: Served, path: str, **query: object) -> tuple[list[Any], int]:
    """Collect a whole list, page by page; tells the number of pages too."""
    items: list[Any] = []
    pages = 0
    cursor = None
    while True:
        asked = {**query} if cursor is None else {**query, "cursor": cursor}
        answer = await served.ask.get(path, params={k: str(v) for k, v in asked.items()})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        assert len(page["items"]) <= int(str(query.get("limit", 50)))
        items += page["items"]
        pages += 1
        cursor = page["next_cursor"]
        if cursor is None:
            return items, pages


@pytest.mark.parametrize("limit", [1, 2, 6, 7, 8, 200])
async def test_sessions_are_listed_once_each_the_newest_first(served: Served, limit: int) -> None:
    made = [await served.new_session(title=str(number)) for number in range(7)]
    items, pages = await walk(served, "/sessions", limit=limit)
    assert [item["session_id"] for item in items] == made[::-1]
    assert pages == -(-7 // limit)


async def test_fifty_are_a_page_by_default(served: Served) -> None:
    for _ in range(51):
        await served.new_session()
    page = (await served.ask.get("/sessions")).json()
    assert len(page["items"]) == 50
    assert page["next_cursor"]


async def test_what_comes_while_paging_disturbs_nothing(served: Served) -> None:
    made = [await served.new_session() for _ in range(4)]
    first = (await served.ask.get("/sessions?limit=2")).json()
    await served.new_session()
    rest = (await served.ask.get(f"/sessions?limit=9&cursor={first['next_cursor']}")).json()
    listed = [item["session_id"] for item in (*first["items"], *rest["items"])]
    assert listed == made[::-1]


async def test_sessions_are_found_by_their_status(served: Served) -> None:
    kept, archived = await served.new_session(), await served.new_session()
    await served.ask.patch(f"/sessions/{archived}", json={"archived": True})
    idle, _ = await walk(served, "/sessions", status="idle")
    gone, _ = await walk(served, "/sessions", status="archived")
    assert [item["session_id"] for item in idle] == [kept]
    assert [item["session_id"] for item in gone] == [archived]


async def test_tasks_and_messages_come_in_pages_too(served: Served) -> None:
    session_id = await served.new_session()
    made = [await served.prompt(session_id, f"prompt {number}") for number in range(5)]
    for task_id in made:
        assert (await served.finished(task_id))["status"] == "completed"
    tasks, pages = await walk(served, f"/sessions/{session_id}/tasks", limit=2)
    assert [task["task_id"] for task in tasks] == made[::-1]
    assert pages == 3
    whole = (await served.ask.get(f"/sessions/{session_id}/messages?limit=200")).json()
    assert len(whole["items"]) == 10
    parts, pages = await walk(served, f"/sessions/{session_id}/messages", limit=3)
    assert pages == 4
    key = "sequence"
    assert sorted(parts, key=lambda part: part[key]) == sorted(
        whole["items"], key=lambda part: part[key]
    )


async def test_the_cursor_of_another_list_is_no_fault_of_the_daemon(served: Served) -> None:
    session_id = await served.new_session()
    await served.new_session()
    cursor = (await served.ask.get("/sessions?limit=1")).json()["next_cursor"]
    for path in (
        "/permissions",
        f"/sessions/{session_id}/tasks",
        f"/sessions/{session_id}/messages",
    ):
        answer = await served.ask.get(path, params={"cursor": cursor})
        assert answer.status_code in (200, 422)

"""What those get who watch over the daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agor.protocol.api import Check, Health
from tests.api.serving import Served, serving


async def figures(served: Served) -> dict[str, float]:
    answer = await served.ask.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        sample.name
        + "".join(f" {value}" for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


async def test_a_daemon_that_is_well_says_so(served: Served) -> None:
    stranger = {"authorization": ""}
    assert (await served.ask.get("/livez", headers=stranger)).json() == {"status": "ok"}
    ready = await served.ask.get("/readyz", headers=stranger)
    assert ready.json() == {"status": "ready", "failing": []}
    health = (await served.ask.get("/health")).json()
    assert health["status"] == "ok"
    assert {check["name"] for check in health["checks"]} >= {"store"}


@pytest.mark.parametrize("status", ["degraded", "stopping"])
async def test_a_daemon_that_is_not_ready_is_alive_all_the_same(
    tmp_path: Path, status: Any
) -> None:
    health = Health(
        status=status, version="1", uptime_ms=1,
        checks=[Check(name="store", ok=False, detail="the disk /secret is full"),
                Check(name="executors", ok=True, detail="")],
    )  # fmt: skip
    async with serving(tmp_path, change=lambda _: {"health": lambda: health}) as served:
        ready = await served.ask.get("/readyz")
        assert ready.status_code == 503
        assert ready.json() == {"status": status, "failing": ["store"]}
        assert (await served.ask.get("/livez")).status_code == 200
        assert (await served.ask.get("/health")).json()["status"] == status


async def test_requests_are_counted_by_route_and_not_by_address(served: Served) -> None:
    for number in range(3):
        await served.ask.get(f"/sessions/none{number}")
        await served.ask.get(f"/nothing/{number}")
    found = await figures(served)
    assert found["agor_http_requests_total GET /sessions/{session_id} 404"] == 3
    assert found["agor_http_requests_total - 404"] == 3
    assert found["agor_http_request_seconds_count GET /sessions/{session_id}"] == 3
    assert not [name for name in found if "none" in name or "nothing" in name]


async def test_events_and_tasks_are_counted(served: Served) -> None:
    session_id = await served.new_session()
    await served.finished(await served.prompt(session_id, "hello"))
    found = await figures(served)
    messages = (await served.ask.get(f"/sessions/{session_id}/messages")).json()
    assert found["agor_events_committed_total"] == messages["sequence"]
    assert found["agor_tasks_ended_total completed"] == 1
    assert 0 < found["agor_commit_events_count"] <= found["agor_commit_events_sum"]
    assert found["process_resident_memory_bytes"] > 0


async def test_figures_that_are_looked_up_are_looked_up_when_they_are_read(served: Served) -> None:
    metrics = served.daemon.metrics
    looked: list[int] = []

    def look() -> None:
        looked.append(1)
        metrics.show_executors(["busy", "idle", "busy"])
        metrics.tasks_waiting.set(7)

    metrics.before_read = look
    found = await figures(served)
    assert looked == [1]
    assert (found["agor_executors busy"], found["agor_executors idle"]) == (2, 1)
    metrics.before_read = lambda: metrics.show_executors([])
    assert "agor_executors busy" not in await figures(served)


async def test_executors_are_listed(served: Served) -> None:
    session_id = await served.new_session()
    await served.finished(await served.prompt(session_id, "hello"))
    page = (await served.ask.get("/executors")).json()
    assert page["next_cursor"] is None
    assert [each["session_id"] for each in page["items"]] == [session_id]

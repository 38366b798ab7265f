"""Terminals and what happens at the same time: nothing is left open that nobody may have."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from agor.daemon.pool.settings import Claim
from agor.daemon.services.terminals.registry import MOST_OPEN
from agor.daemon.store.base import Write
from agor.errors import InvalidParams, StoreUnavailable
from agor.execution import ExecutionEnvironment
from agor.protocol.terminals import ReportTerminalParams
from tests.api.people import Person, person
from tests.api.serving import Served
from tests.api.terminals import PLAIN, attached, open_terminal, row
from tests.contract.waiting import soon, until


class SlowExecutors:
    """Has every executor wait for a word once it is there."""

    def __init__(self, served: Served) -> None:
        self.came, self.go = asyncio.Event(), asyncio.Event()
        acquire = served.daemon.executors.acquire

        async def slowly(claim: Claim) -> ExecutionEnvironment:
            environment = await acquire(claim)
            self.came.set()
            await self.go.wait()
            return environment

        served.daemon.executors.acquire = slowly  # type: ignore[method-assign]


async def delete(served: Served, ada: Person, session_id: str) -> None:
    assert (await ada.ask.delete(f"/sessions/{session_id}")).status_code == 204


async def archive(served: Served, ada: Person, session_id: str) -> None:
    assert (await ada.ask.patch(f"/sessions/{session_id}", json={"archived": True})).is_success


async def demote(served: Served, ada: Person, session_id: str) -> None:
    change = {"role": "viewer"}
    assert (await served.ask.patch(f"/users/{ada.user_id}", json=change)).is_success


async def map_to_another(served: Served, ada: Person, session_id: str) -> None:
    change = {"unix_username": "nobody"}
    assert (await served.ask.patch(f"/users/{ada.user_id}", json=change)).is_success


Meanwhile = Callable[[Served, Person, str], Awaitable[None]]


@pytest.mark.parametrize(
    ("meanwhile", "status"),
    [(delete, 404), (archive, 409), (demote, 403), (map_to_another, 409)],
)
async def test_what_changes_while_a_terminal_is_opened_counts(
    served: Served, meanwhile: Meanwhile, status: int
):
    slow = SlowExecutors(served)
    async with person(served, "ada") as ada:
        new = {"agentic_tool": "scripted", "workspace": str(served.folder)}
        session_id = (await ada.ask.post("/sessions", json=new)).json()["session_id"]
        path = f"/sessions/{session_id}/terminals"
        opening = asyncio.create_task(ada.ask.post(path, json=PLAIN))
        await soon(slow.came.wait())
        await meanwhile(served, ada, session_id)
        slow.go.set()
        answer: httpx.Response = await soon(opening)
        # Its executor may have been ended before its shell could be started.
        assert answer.status_code in (status, 503), answer.text
        await until(lambda: not served.daemon.executors.describe())
        assert not len(served.daemon.terminals.opened)
        rows = await served.daemon.store.read("SELECT terminal_id FROM terminals")
        assert rows == []


async def test_no_more_are_opened_at_once_than_may_be_open(served: Served):
    session_id = await served.new_session()
    path = f"/sessions/{session_id}/terminals"
    asked = (served.ask.post(path, json=PLAIN) for _ in range(MOST_OPEN + 4))
    statuses = sorted(answer.status_code for answer in await asyncio.gather(*asked))
    assert statuses == [201] * MOST_OPEN + [409] * 4


async def test_an_end_is_told_once_it_is_stored_and_not_before(served: Served):
    terminal_id = await open_terminal(served, await served.new_session())
    store, tried, well = served.daemon.store, asyncio.Event(), asyncio.Event()
    commit = store.commit

    async def outage(write: Write) -> None:
        if not well.is_set():
            tried.set()
            raise StoreUnavailable("the disk is full")
        await commit(write)

    async with attached(served, terminal_id) as screen:
        await screen.run("true")
        store.commit = outage  # type: ignore[method-assign]
        await screen.type("exit 5\n")
        await soon(tried.wait())
        ending = asyncio.create_task(screen.to_its_end())
        assert (await row(served, terminal_id))["status"] == "open"
        assert [told["type"] for told in screen.told] == ["attached"]
        well.set()
        await soon(ending)
        assert screen.told[-1]["exit_code"] == 5
    found = await row(served, terminal_id)
    assert (found["status"], found["exit_code"]) == ("ended", 5)


async def test_an_executor_speaks_of_its_own_terminal_and_of_no_other(served: Served):
    terminal_id = await open_terminal(served, await served.new_session())
    another: Any = SimpleNamespace(executor_id="another")
    lie = ReportTerminalParams(terminal_id=terminal_id, offset=0, data=b"lies", exit_code=0)
    with pytest.raises(InvalidParams):
        served.daemon.terminals.take(another, lie)
    early = ReportTerminalParams(terminal_id="not known", offset=0, exit_code=0)
    for number in range(1000):
        served.daemon.terminals.take(SimpleNamespace(executor_id=str(number)), early)  # type: ignore[arg-type]
    assert len(served.daemon.terminals.opened._early) <= 256
    async with attached(served, terminal_id) as screen:
        await screen.run("true")
        assert b"lies" not in screen.seen


async def test_who_closes_one_that_is_closing_waits_for_the_same_end(served: Served):
    terminal_id = await open_terminal(served, await served.new_session())
    asked = (served.ask.delete(f"/terminals/{terminal_id}") for _ in range(5))
    assert [answer.status_code for answer in await asyncio.gather(*asked)] == [204] * 5
    path = "/audit?action=terminal.ended"
    assert len((await served.ask.get(path)).json()["items"]) == 1

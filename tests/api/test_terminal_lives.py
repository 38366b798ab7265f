"""How terminals begin and end through the interface, and how many of them there may be."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from agor.daemon.services.terminals.live import MOST_CLIENTS
from agor.daemon.services.terminals.registry import MOST_OPEN
from tests.api.serving import Served, serving
from tests.api.terminals import PLAIN, attached, open_terminal, refused, row, until_ended
from tests.contract.waiting import soon, until


async def test_a_shell_that_ends_tells_its_exit_code_to_all_and_to_the_record(served: Served):
    session_id = await served.new_session()
    terminal_id = await open_terminal(served, session_id)
    async with attached(served, terminal_id) as one, attached(served, terminal_id) as other:
        await one.type("echo by-$((1 + 1)); exit 3\n")
        for screen in (one, other):
            closed = await screen.to_its_end()
            assert closed is not None
            assert closed.code == 1000
            assert b"by-2" in screen.seen
            assert screen.told[-1]["type"] == "exit"
            assert screen.told[-1]["exit_code"] == 3
        found = await row(served, terminal_id)
        assert (found["status"], found["exit_code"]) == ("ended", 3), "stored before it is told"
    assert found["how"] == "its shell ended with exit code 3"
    await until(lambda: not served.daemon.executors.describe())
    assert await refused(served, terminal_id) == 409
    assert (await served.ask.delete(f"/terminals/{terminal_id}")).status_code == 204


async def test_a_shell_that_a_signal_kills_is_said_to_be_killed_by_it(served: Served):
    terminal_id = await open_terminal(served, await served.new_session())
    async with attached(served, terminal_id) as screen:
        await screen.type("kill -9 $$\n")
        await screen.to_its_end()
        assert screen.told[-1]["exit_code"] == -9
    assert (await row(served, terminal_id))["how"] == "its shell was killed by SIGKILL"


async def test_a_shell_that_ends_while_nobody_looks_is_noticed(served: Served):
    terminal_id = await open_terminal(served, await served.new_session(), shell="/bin/true")
    assert (await until_ended(served, terminal_id))["exit_code"] == 0
    await until(lambda: not served.daemon.executors.describe())


async def test_closing_ends_what_runs_and_tells_those_who_look(served: Served):
    terminal_id = await open_terminal(served, await served.new_session())
    async with attached(served, terminal_id) as screen:
        await screen.type("sleep 1000\n")
        assert (await served.ask.delete(f"/terminals/{terminal_id}")).status_code == 204
        found = await row(served, terminal_id)
        assert (found["status"], found["exit_code"]) == ("ended", None)
        assert found["how"] == f"closed by {served.who.name}"
        closed = await screen.to_its_end()
        assert closed is not None
        assert closed.code == 1000
        assert screen.told[-1] == {"type": "exit", "exit_code": None, "how": found["how"]}
    assert not served.daemon.executors.describe()
    assert (await served.ask.delete(f"/terminals/{terminal_id}")).status_code == 204
    assert (await served.ask.delete("/terminals/another")).status_code == 404


async def test_there_are_bounds_to_terminals_and_to_their_clients(served: Served):
    session_id = await served.new_session()
    opened = [await open_terminal(served, session_id) for _ in range(MOST_OPEN)]
    answer = await served.ask.post(f"/sessions/{session_id}/terminals", json=PLAIN)
    assert answer.status_code == 409
    assert "agor terminal close" in answer.json()["hint"]
    assert len(served.daemon.executors.describe()) == MOST_OPEN, "the one too many left nothing"
    async with contextlib.AsyncExitStack() as clients:
        for _ in range(MOST_CLIENTS):
            await clients.enter_async_context(attached(served, opened[0]))
        assert await refused(served, opened[0]) == 409
    await served.ask.delete(f"/terminals/{opened[1]}")
    await open_terminal(served, session_id)
    rendered = (await served.ask.get("/metrics")).text
    assert f"agor_terminals {float(MOST_OPEN)}" in rendered


async def test_a_shell_that_is_none_is_refused_and_leaves_nothing(served: Served):
    session_id = await served.new_session()
    path = f"/sessions/{session_id}/terminals"
    answer = await served.ask.post(path, json={"shell": "/no/such/shell"})
    assert answer.status_code == 422
    assert "/no/such/shell" in answer.json()["detail"]
    assert not served.daemon.executors.describe()
    assert (await served.ask.get(path)).json()["items"] == []


async def test_a_key_opens_one_terminal_however_often_it_is_asked(served: Served):
    path = f"/sessions/{await served.new_session()}/terminals"
    headers = {"idempotency-key": "once"}
    first = await served.ask.post(path, json=PLAIN, headers=headers)
    again = await served.ask.post(path, json=PLAIN, headers=headers)
    assert first.status_code == again.status_code == 201
    assert first.json() == again.json()
    assert len((await served.ask.get(path)).json()["items"]) == 1


@pytest.mark.parametrize("how", ["archived", "deleted"])
async def test_a_session_that_goes_takes_its_terminals_along(served: Served, how: str):
    session_id = await served.new_session()
    terminal_id = await open_terminal(served, session_id)
    async with attached(served, terminal_id) as screen:
        if how == "archived":
            answer = await served.ask.patch(f"/sessions/{session_id}", json={"archived": True})
            assert (await row(served, terminal_id))["how"] == "its session was archived"
            opened = await served.ask.post(f"/sessions/{session_id}/terminals", json=PLAIN)
            assert opened.status_code == 409
        else:
            answer = await served.ask.delete(f"/sessions/{session_id}")
            assert (await served.ask.get(f"/terminals/{terminal_id}")).status_code == 404
        assert answer.is_success
        await screen.to_its_end()
        assert screen.told[-1]["how"] == f"its session was {how}"
    assert not served.daemon.executors.describe()


async def test_nobody_is_attached_for_too_long_and_it_is_closed(tmp_path: Path):
    config: dict[str, Any] = {"execution.terminal_timeout_ms": 2000}
    async with serving(tmp_path, **config) as served:
        terminal_id = await open_terminal(served, await served.new_session())
        async with attached(served, terminal_id) as screen:
            # Longer than nobody may be attached.
            await screen.run("sleep 2.2")
        found = await until_ended(served, terminal_id)
        assert "execution.terminal_timeout_ms" in found["how"]
        await until(lambda: not served.daemon.executors.describe())


async def test_where_every_executor_is_in_use_it_is_refused_with_what_to_do(tmp_path: Path):
    config: dict[str, Any] = {"execution.max_executors": 1}
    async with serving(tmp_path, **config) as served:
        session_id = await served.new_session()
        terminal_id = await open_terminal(served, session_id)
        answer = await served.ask.post(f"/sessions/{session_id}/terminals", json=PLAIN)
        assert (answer.status_code, answer.json()["code"]) == (503, "pool_exhausted")
        await served.ask.delete(f"/terminals/{terminal_id}")
        await open_terminal(served, session_id)


async def test_a_daemon_that_ends_tells_those_who_look(tmp_path: Path):
    async with serving(tmp_path) as served:
        terminal_id = await open_terminal(served, await served.new_session())
        async with attached(served, terminal_id) as screen:
            stopping = asyncio.create_task(served.server.stop(2.0))
            closed = await screen.to_its_end()
            assert closed is not None
            assert closed.code == 1012
            await soon(stopping)

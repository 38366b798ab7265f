"""Terminals through the interface: a shell in a session's workspace, as long as it is wanted."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from agor.daemon.services.terminals.live import MOST_CLIENTS
from agor.daemon.services.terminals.registry import MOST_OPEN
from agor.protocol.terminals import KEPT, MAX_INPUT
from tests.api.serving import Served, serving
from tests.api.terminals import attached, open_terminal, refused, row, until_ended
from tests.contract.waiting import soon, until


async def test_what_is_typed_is_run_in_the_workspace_and_what_it_prints_is_seen(served: Served):
    session_id = await served.new_session()
    terminal_id = await open_terminal(served, session_id, cols=100, rows=30, term="vt220")
    async with attached(served, terminal_id) as screen:
        assert screen.told == [{"type": "attached", "offset": 0, "cols": 100, "rows": 30}]
        assert f"{served.folder}" in await screen.run("pwd")
        assert "30 100" in await screen.run("stty size")
        assert "is-vt220" in await screen.run("echo is-$TERM")
        assert (await row(served, terminal_id))["clients"] == 1
    await until(lambda: served.count("agor_terminal_clients") == 0)
    listed = (await served.ask.get(f"/sessions/{session_id}/terminals")).json()
    assert listed == {"items": [await row(served, terminal_id)], "next_cursor": None}
    [shown] = listed["items"]
    assert (shown["status"], shown["shell"], shown["clients"]) == ("open", "/bin/sh", 0)
    [executor] = (await served.ask.get("/executors")).json()["items"]
    assert (executor["session_id"], executor["terminal_id"]) == (session_id, terminal_id)
    assert executor["executor_id"] == shown["executor_id"]


async def test_who_comes_back_with_their_place_has_no_gap_and_no_duplicate(served: Served):
    terminal_id = await open_terminal(served, await served.new_session())
    async with attached(served, terminal_id) as screen:
        await screen.run("stty -echo; PS1=")
        # Less than is kept: nobody looks at some of it while it is printed.
        await screen.type("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo $i; done; echo END\n")
        await screen.until(b"\n7\r\n")
        whole = bytes(screen.seen)
        screen.connection.transport.abort()
    cuts = 0
    while b"END" not in whole:
        async with attached(served, terminal_id, after=len(whole)) as screen:
            assert screen.begin == len(whole)
            await screen.frame()
            whole += screen.seen
            screen.connection.transport.abort()
        cuts += 1
    assert cuts > 3
    numbers = [int(line) for line in whole.split(b"\r\n") if line.isdigit()]
    assert numbers == list(range(1, 20001))


async def test_what_is_kept_no_more_is_told_by_the_place(served: Served):
    terminal_id = await open_terminal(served, await served.new_session())
    done = served.folder / "done"
    async with attached(served, terminal_id) as screen:
        await screen.run("stty -echo")
        await screen.type(f"sleep 0.1; yes 1234567 | head -n 100000; touch {done}\n")
    await until(done.exists)
    async with attached(served, terminal_id, after=screen.end) as late:
        assert late.begin > screen.end, "some of it is gone"
        await late.run("true")
        assert len(late.seen) >= KEPT


async def test_all_clients_see_the_same_also_who_comes_later(served: Served):
    terminal_id = await open_terminal(served, await served.new_session())
    async with attached(served, terminal_id) as first:
        await first.run("echo one-$((1 + 1))")
        async with attached(served, terminal_id) as second:
            await second.run("echo two-$((1 + 1))")
            async with attached(served, terminal_id, after=second.end) as third:
                await third.run("echo three-$((1 + 1))")
                last = third.seen[-20:]
                await first.until(last)
                await second.until(last)
        assert b"one-2" in second.seen, "what was before them is shown to who comes later"
        assert b"one-2" not in third.seen, "but what they have already is not"
        await first.run("true")
        assert first.seen.startswith(second.seen)
        assert first.seen.count(b"three-2") == 1


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


async def test_a_client_can_change_the_size_of_the_window(served: Served):
    terminal_id = await open_terminal(served, await served.new_session())
    async with attached(served, terminal_id) as screen:
        await screen.connection.send(json.dumps({"type": "resize", "cols": 132, "rows": 50}))
        assert "50 132" in await screen.run("stty size")
    async with attached(served, terminal_id) as again:
        assert (again.told[0]["cols"], again.told[0]["rows"]) == (132, 50)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("ls", 1003),
        ('{"type": "resize", "cols": 0, "rows": 5}', 1003),
        ('{"type": "resize", "cols": 5, "rows": 5, "more": 1}', 1003),
        ('{"type": "close"}', 1003),
        ("", 1003),
        (bytes(MAX_INPUT + 1), 1009),
    ],
)
async def test_what_is_neither_keys_nor_a_size_ends_the_connection_and_not_the_terminal(
    served: Served, said: Any, code: int
):
    terminal_id = await open_terminal(served, await served.new_session())
    async with attached(served, terminal_id) as screen:
        await screen.connection.send(said)
        closed = await screen.to_its_end()
        assert closed is not None
        assert closed.code == code
    assert (await row(served, terminal_id))["status"] == "open"


async def test_keys_that_a_program_does_not_read_keep_nobody_from_being_heard(served: Served):
    terminal_id = await open_terminal(served, await served.new_session())
    async with attached(served, terminal_id) as screen:
        await screen.type("stty -icanon -echo; echo re-$((1 + 1)); sleep 1000\n")
        await screen.until(b"re-2")
        for _ in range(3):
            await screen.connection.send(b"x" * MAX_INPUT)
        resize = json.dumps({"type": "resize", "cols": 77, "rows": 33})
        await screen.connection.send(resize)
        async with attached(served, terminal_id) as other:
            while (other.told[0]["cols"], other.told[0]["rows"]) != (77, 33):
                async with attached(served, terminal_id) as other:
                    pass
    await until(lambda: served.count("agor_terminal_clients") == 0)


async def test_there_are_bounds_to_terminals_and_to_their_clients(served: Served):
    session_id = await served.new_session()
    opened = [await open_terminal(served, session_id) for _ in range(MOST_OPEN)]
    answer = await served.ask.post(f"/sessions/{session_id}/terminals", json={})
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


async def test_a_place_of_another_terminal_is_refused(served: Served):
    terminal_id = await open_terminal(served, await served.new_session())
    assert await refused(served, terminal_id, "?after=1000000") == 409
    assert await refused(served, terminal_id, "?after=-1") == 422
    assert await refused(served, "another") == 404
    async with attached(served, terminal_id) as screen:
        assert await refused(served, terminal_id, "?after=1000000") == 409
        await screen.run("true")


async def test_a_page_of_another_site_cannot_attach(served: Served):
    terminal_id = await open_terminal(served, await served.new_session())
    there = {**served.headers, "origin": "http://another.example"}
    assert await refused(served, terminal_id, **there) == 403
    assert await refused(served, terminal_id, origin=served.url) == 401
    assert await refused(served, terminal_id, **{**served.headers, "origin": served.url}) == 101


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
    first = await served.ask.post(path, json={}, headers=headers)
    again = await served.ask.post(path, json={}, headers=headers)
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
            opened = await served.ask.post(f"/sessions/{session_id}/terminals", json={})
            assert opened.status_code == 409
        else:
            answer = await served.ask.delete(f"/sessions/{session_id}")
            assert (await served.ask.get(f"/terminals/{terminal_id}")).status_code == 404
        assert answer.is_success
        await screen.to_its_end()
        assert screen.told[-1]["how"] == f"its session was {how}"
    assert not served.daemon.executors.describe()


async def test_nobody_is_attached_for_too_long_and_it_is_closed(tmp_path: Path):
    config: dict[str, Any] = {"execution.terminal_timeout_ms": 300}
    async with serving(tmp_path, **config) as served:
        terminal_id = await open_terminal(served, await served.new_session())
        async with attached(served, terminal_id) as screen:
            # Longer than nobody may be attached.
            await screen.run("sleep 1")
        found = await until_ended(served, terminal_id)
        assert "execution.terminal_timeout_ms" in found["how"]
        await until(lambda: not served.daemon.executors.describe())


async def test_where_every_executor_is_in_use_it_is_refused_with_what_to_do(tmp_path: Path):
    config: dict[str, Any] = {"execution.max_executors": 1}
    async with serving(tmp_path, **config) as served:
        session_id = await served.new_session()
        terminal_id = await open_terminal(served, session_id)
        answer = await served.ask.post(f"/sessions/{session_id}/terminals", json={})
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


async def test_who_vanishes_is_noticed_and_lets_go(served: Served):
    terminal_id = await open_terminal(served, await served.new_session())
    async with attached(served, terminal_id) as screen:
        screen.connection.transport.abort()
        assert await screen.to_its_end() is None, "without a word"
    await until(lambda: served.count("agor_terminal_clients") == 0)
    assert (await row(served, terminal_id))["clients"] == 0

"""Terminals through the interface: a shell in a session's workspace, as long as it is wanted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agor.protocol.terminals import KEPT, MAX_INPUT
from tests.api.serving import Served
from tests.api.terminals import attached, open_terminal, refused, row
from tests.contract.waiting import until


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
        # In pieces, each when somebody asks for it; all of it is less than is kept.
        await screen.type(
            "i=0; while [ $i -lt 20000 ]; do read -r x; n=0; while [ $n -lt 400 ]; do "
            "i=$((i+1)); n=$((n+1)); echo $i; done; done; echo END\n\n"
        )
        await screen.until(b"\n7\r\n")
        whole = bytes(screen.seen)
        screen.connection.transport.abort()
    cuts = 0
    while b"END" not in whole:
        async with attached(served, terminal_id, after=len(whole)) as screen:
            assert screen.begin == len(whole)
            await screen.type("\n")
            await screen.frame()
            whole += screen.seen
            screen.connection.transport.abort()
        cuts += 1
    assert cuts > 10
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


async def test_who_vanishes_is_noticed_and_lets_go(served: Served):
    terminal_id = await open_terminal(served, await served.new_session())
    async with attached(served, terminal_id) as screen:
        screen.connection.transport.abort()
        assert await screen.to_its_end() is None, "without a word"
    await until(lambda: served.count("agor_terminal_clients") == 0)
    assert (await row(served, terminal_id))["clients"] == 0

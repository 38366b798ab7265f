"""Terminals in the database."""

from __future__ import annotations

import msgspec

from agor.daemon.store import sessions, terminals
from agor.daemon.store.base import Store
from tests.store.examples import ODD, a_session, a_terminal, put


async def test_a_terminal_comes_back_as_it_was_stored(store: Store):
    row = a_terminal()
    await put(store, terminals.insert(row))
    await put(store, terminals.insert(a_terminal(shell="/bin/another")))
    assert await terminals.get(store, "terminal-1") == row
    assert await terminals.get(store, "terminal-2") is None


async def test_a_terminal_ends_once(store: Store):
    row = a_terminal()
    await put(store, terminals.insert(row))
    ended = msgspec.structs.replace(row, status="ended", exit_code=3, how=ODD, ended_at=50)
    await put(store, terminals.end(ended))
    await put(store, terminals.end(msgspec.structs.replace(ended, exit_code=None, ended_at=60)))
    assert await terminals.get(store, "terminal-1") == ended


async def test_those_that_are_open_are_found_whosever_they_are(store: Store):
    rows = [
        a_terminal("a"),
        a_terminal("b", session_id="session-2"),
        a_terminal("c", status="ended"),
    ]
    await put(store, *map(terminals.insert, rows))
    assert await terminals.still_open(store) == rows[:2]


async def test_the_newest_of_a_session_come_first(store: Store):
    rows = [a_terminal(f"t-{at}", created_at=at) for at in (1, 2, 3)]
    await put(store, *map(terminals.insert, rows))
    await put(store, terminals.insert(a_terminal("elsewhere", session_id="session-2")))
    assert await terminals.of_session(store, "session-1", 2) == [rows[2], rows[1]]


async def test_only_ended_ones_are_forgotten_and_the_newest_of_them_stay(store: Store):
    ended = [a_terminal(f"t-{at}", status="ended", created_at=at) for at in (1, 2, 3)]
    others = [a_terminal("open", created_at=0), a_terminal("x", session_id="s-2", status="ended")]
    await put(store, *map(terminals.insert, ended + others))
    await put(store, terminals.forget_ended("session-1", 2))
    kept = await terminals.of_session(store, "session-1", 10)
    assert [row.terminal_id for row in kept] == ["t-3", "t-2", "open"]
    assert await terminals.get(store, "x")


async def test_terminals_go_with_their_session(store: Store):
    session = a_session()
    await put(store, sessions.insert(session), terminals.insert(a_terminal()))
    await put(store, terminals.insert(a_terminal("other", session_id="session-2")))
    await put(store, *sessions.delete(session))
    assert await terminals.get(store, "terminal-1") is None
    assert await terminals.get(store, "other")

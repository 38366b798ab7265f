"""Terminals and people: whose they are, when they end with somebody's access, what is recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api.people import person
from tests.api.repositories import ask, new_repository, registered, worktree
from tests.api.serving import Served
from tests.api.terminals import PLAIN, attached, open_terminal, refused, row
from tests.contract.waiting import until

#: What somebody types, which nobody else must ever read.
SECRET = "correct-horse-7731-battery"


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def session_of(served: Served, client: Any) -> str:
    new = {"agentic_tool": "scripted", "workspace": str(served.folder)}
    session_id: str = (await client.post("/sessions", json=new)).json()["session_id"]
    return session_id


async def test_an_admin_can_close_anothers_terminal_and_nothing_else(served: Served):
    async with person(served, "ada") as ada, person(served, "adam", "admin") as admin:
        session_id = await session_of(served, ada.ask)
        path = f"/sessions/{session_id}/terminals"
        terminal_id = (await ada.ask.post(path, json=PLAIN)).json()["terminal_id"]
        theirs = f"/terminals/{terminal_id}"
        assert (await admin.ask.get(theirs)).status_code == 403
        assert (await admin.ask.get(path)).status_code == 403
        assert (await admin.ask.post(path, json=PLAIN)).status_code == 403
        assert await refused(served, terminal_id, **bearer(admin.token)) == 403
        assert (await admin.ask.delete(theirs)).status_code == 204
        assert (await ada.ask.get(theirs)).json()["how"] == "closed by adam"


async def test_to_a_stranger_a_terminal_does_not_exist_nor_does_its_session(served: Served):
    async with person(served, "ada") as ada, person(served, "bob") as bob:
        session_id = await session_of(served, ada.ask)
        made = await ada.ask.post(f"/sessions/{session_id}/terminals", json=PLAIN)
        terminal_id = made.json()["terminal_id"]
        for method in ("GET", "DELETE"):
            answer = await bob.ask.request(method, f"/terminals/{terminal_id}")
            assert answer.status_code == 404
            assert session_id not in answer.text
        assert await refused(served, terminal_id, **bearer(bob.token)) == 404
        assert (await ada.ask.get(f"/terminals/{terminal_id}")).json()["status"] == "open"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"disabled": True}, "the account of ada is disabled"),
        ({"role": "viewer"}, "ada is a viewer now"),
        ({"unix_username": "nobody"}, "ada is another Unix user now"),
    ],
)
async def test_what_somebody_is_no_more_ends_their_terminals_at_once(
    served: Served, change: dict[str, Any], why: str
):
    async with person(served, "ada") as ada:
        session_id = await session_of(served, ada.ask)
        made = await ada.ask.post(f"/sessions/{session_id}/terminals", json=PLAIN)
        terminal_id = made.json()["terminal_id"]
        async with attached(served, terminal_id, headers=bearer(ada.token)) as screen:
            await screen.run("true")
            changed = await served.ask.patch(f"/users/{ada.user_id}", json=change)
            assert changed.status_code == 200, changed.text
            closed = await screen.to_its_end()
            assert closed is not None
            assert closed.code == 4403
        await until(lambda: not served.daemon.terminals.opened.all())
        found = await served.daemon.store.read(
            "SELECT status, how FROM terminals WHERE terminal_id = ?", (terminal_id,)
        )
        assert [(status, why in how) for status, how in found] == [("ended", True)]
        assert not served.daemon.executors.describe()


async def test_a_token_that_is_revoked_looks_no_more_and_the_terminal_goes_on(served: Served):
    async with person(served, "ada") as ada:
        session_id = await session_of(served, ada.ask)
        made = await ada.ask.post(f"/sessions/{session_id}/terminals", json=PLAIN)
        terminal_id = made.json()["terminal_id"]
        async with attached(served, terminal_id, headers=bearer(ada.token)) as screen:
            await served.ask.delete(f"/tokens/{ada.token_id}")
            closed = await screen.to_its_end()
            assert closed is not None
            assert closed.code == 4403
        assert len(served.daemon.terminals.opened) == 1


async def test_a_worktree_with_an_open_terminal_is_not_removed(served: Served, tmp_path: Path):
    shop = new_repository(tmp_path / "shop")
    worktree_id, path = await worktree(served, await registered(served, shop))
    new = {"agentic_tool": "scripted", "worktree_id": worktree_id}
    session_id = (await ask(served, "POST", "/sessions", 201, **new))["session_id"]
    terminal_id = await open_terminal(served, session_id)
    problem = await ask(served, "DELETE", f"/worktrees/{worktree_id}", 409)
    assert f"agor terminal close {terminal_id}" in problem["hint"]
    assert path.exists()
    assert (await row(served, terminal_id))["status"] == "open"
    await served.ask.delete(f"/terminals/{terminal_id}")
    served.daemon.workspaces.removals._leaving.add(worktree_id)
    answer = await served.ask.post(f"/sessions/{session_id}/terminals", json=PLAIN)
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    served.daemon.workspaces.removals._leaving.discard(worktree_id)
    await ask(served, "DELETE", f"/worktrees/{worktree_id}", 200)
    assert not path.exists()


async def test_the_log_has_who_opened_attached_and_closed_and_nothing_of_inside(
    served: Served, capfd: pytest.CaptureFixture[str]
):
    session_id = await served.new_session()
    first = await open_terminal(served, session_id)
    async with attached(served, first) as screen:
        await screen.run(f"echo {SECRET}")
        await screen.type("exit 4\n")
        await screen.to_its_end()
    second = await open_terminal(served, session_id)
    async with attached(served, second) as screen:
        await screen.type(SECRET)
        await screen.until(SECRET.encode())
        await screen.connection.send(f'{{"type": "{SECRET}"}}')
        await screen.to_its_end()
    await served.ask.delete(f"/terminals/{second}")
    listed = (await served.ask.get(f"/audit?session_id={session_id}&action=terminal.")).json()
    told = [
        (each["action"], each["actor"], each["subject"], each["detail"].get("exit_code"))
        for each in reversed(listed["items"])
    ]
    name = served.who.name
    assert told == [
        ("terminal.opened", name, first, None),
        ("terminal.attached", name, first, None),
        ("terminal.ended", "daemon", first, 4),
        ("terminal.opened", name, second, None),
        ("terminal.attached", name, second, None),
        ("terminal.closed", name, second, None),
        ("terminal.ended", "daemon", second, None),
    ]
    assert {each["detail"]["shell"] for each in listed["items"]} == {"/bin/sh"}
    verified = (await served.ask.get("/audit/verification")).json()
    assert (verified["fault"], verified["next_cursor"]) == (None, None)
    everything = b"".join(path.read_bytes() for path in served.folder.rglob("*") if path.is_file())
    assert session_id.encode() in everything, "the database is among them"
    assert SECRET.encode() not in everything
    captured = capfd.readouterr()
    assert SECRET not in captured.out + captured.err

"""Permission rules of a real daemon: over kill -9, and between people."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agor.client import Client
from agor.daemon.services.principal import Principal
from agor.daemon.store import permissions, users
from agor.daemon.store.base import Write
from agor.daemon.store.rows import PermissionRow, UserRow
from agor.errors import Forbidden, NotFound
from agor.protocol.api import Decision, DecisionRule, Permission
from agor.protocol.methods import RequestPermissionParams
from agor.protocol.rules import NewRule
from tests.integration.daemon.daemon_process import running_daemon
from tests.integration.daemon.in_process import Desk, desk_in, soon

BOB = UserRow(user_id="bob", name="bob", role="admin", unix_username=None, created_at=2**52)


def ask(command: str = "git status") -> dict[str, Any]:
    return {"tool": {"name": "Bash", "input": {"command": command}, "output": "ran", "ask": True}}


async def asked_in(client: Client, session_id: str, after: int = 0) -> Permission:
    """Wait for the next question of a session that a person has to answer."""
    async with client.follow(session_id, after) as feed:
        async for event in feed:
            if event.type == "permission" and event.data["status"] == "pending":
                return await client.permission(event.data["permission_id"])
    raise AssertionError("the feed ended")


async def all_of(client: Client, session_id: str) -> list[Permission]:
    found = [each async for each in client.permissions() if each.session_id == session_id]
    return found[::-1]


# ── kill -9 ──────────────────────────────────────────────────────────────────────────────────


async def test_a_rule_made_just_before_a_crash_holds_after_it(folder: Path) -> None:
    with running_daemon() as daemon:
        async with daemon.client() as client:
            session = await client.create_session("scripted", folder)
            accepted = await client.prompt(session.session_id, json.dumps([ask(), ask()]))
            first = await soon(asked_in(client, session.session_id))
            await client.decide(first.permission_id, approved=True, scope="session")
            await asyncio.to_thread(daemon.kill)
            await asyncio.to_thread(daemon.start)
            task = await client.wait_task(accepted.task_id, timeout=30)
            assert task.status == "completed"
            (rule,) = [each async for each in client.rules.list()]
            (one, two) = await all_of(client, session.session_id)
            assert (one.status, one.decided_rule) == ("approved", None)
            assert (two.status, two.decided_rule) == ("approved", rule.rule_id)
            assert rule.permission_id == first.permission_id


async def test_rules_and_revocations_outlive_a_crash(folder: Path) -> None:
    with running_daemon() as daemon:
        async with daemon.client() as client:
            new = NewRule(effect="allow", tool="Bash", scope="user", input={"command": "git *"})
            kept = await client.rules.make(new)
            gone = await client.rules.make(
                NewRule(effect="deny", tool="Bash", scope="user", input={})
            )
            await client.rules.revoke(gone.rule_id)
            await asyncio.to_thread(daemon.kill)
            await asyncio.to_thread(daemon.start)
            session = await client.create_session("scripted", folder)
            accepted = await client.prompt(session.session_id, json.dumps([ask()]))
            await client.wait_task(accepted.task_id, timeout=30)
            (asked,) = await all_of(client, session.session_id)
            assert (asked.status, asked.decided_rule) == ("approved", kept.rule_id)
            assert (await client.rules.get(gone.rule_id)).revoked_at is not None


async def test_a_question_is_decided_after_the_crash_by_a_rule_that_was_made_before(
    folder: Path,
) -> None:
    """The daemon may die between storing a rule and deciding by it all that is open."""
    async with desk_in(folder, execution__permission_timeout_ms=600_000) as desk:
        session = await desk.session()
        await desk.prompt(session, [ask()])
        asked = await desk.asked(session)
        rule = await add(desk, desk.who, apply=False)
        pending = desk.daemon.permissions.questions.get(asked.permission_id)
        assert pending is not None
        # As a daemon would that comes after this one.
        await desk.daemon.rules.open()
        desk.daemon.permissions.restore(pending.row, pending.live)
        event = await desk.until(
            session, lambda e: e["type"] == "permission" and e["data"]["status"] == "approved"
        )
        assert event["data"]["decided_rule"] == rule


# ── asked again ──────────────────────────────────────────────────────────────────────────────


async def test_a_question_that_is_asked_again_gets_the_answer_that_it_had(folder: Path) -> None:
    """Also if the rule holds no more: it is the same question."""
    async with desk_in(folder) as desk:
        rule_id = await add(desk, desk.who)
        session = await desk.session()
        task_id = await desk.prompt(session, [ask(), {"delay_ms": 60_000}])
        event = await desk.until(session, lambda e: e["type"] == "permission")
        run = desk.daemon.runs.get(task_id)
        assert run is not None
        (row,) = await desk.daemon.store.read("SELECT request_id FROM permission_requests")
        await desk.daemon.rules.revoke(desk.who, rule_id)
        params = RequestPermissionParams(
            session_token="t", task_id=task_id, request_id=row[0], tool_name="Bash",
            tool_input={"command": "git status"},
        )  # fmt: skip
        questions = desk.daemon.permissions.questions
        for _ in range(2):
            answers = await soon(
                asyncio.gather(*(desk.daemon.permissions.ask(run, params) for _ in range(5)))
            )
            assert {answer.approved for answer in answers} == {True}
            # Then as one whose memory is gone.
            questions.forget(task_id)
        found = await desk.daemon.permissions.page(desk.who, None, None, None, 10)
        assert [item.permission_id for item in found.items] == [event["data"]["permission_id"]]


async def test_a_question_that_is_answered_while_it_is_looked_up_is_not_opened_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it could be decided twice: the second answer would be stored over the first."""
    async with desk_in(folder) as desk:
        session = await desk.session()
        task_id = await desk.prompt(session, [ask(), {"delay_ms": 60_000}])
        asked = await desk.asked(session)
        run = desk.daemon.runs.get(task_id)
        assert run is not None
        ((request_id,),) = await desk.daemon.store.read(
            "SELECT request_id FROM permission_requests"
        )
        service = desk.daemon.permissions
        find, by_request = service.questions.asked, permissions.by_request

        async def read_slowly(*place: Any) -> PermissionRow | None:
            row = await by_request(*place)
            monkeypatch.setattr(service.questions, "asked", find)
            await service.decide(desk.who, asked.permission_id, Decision(approved=False))
            return row

        # As if it was just being put when this one came to look.
        monkeypatch.setattr(service.questions, "asked", lambda _: None)
        monkeypatch.setattr(permissions, "by_request", read_slowly)
        params = RequestPermissionParams(
            session_token="t", task_id=task_id, request_id=request_id, tool_name="Bash",
            tool_input={"command": "git status"},
        )  # fmt: skip
        answer = await soon(service.ask(run, params))
        assert not answer.approved
        assert service.questions.get(asked.permission_id) is None


# ── two people ───────────────────────────────────────────────────────────────────────────────


async def add(desk: Desk, who: Principal, *, apply: bool = True, **members: Any) -> str:
    form = {"effect": "allow", "tool": "Bash", "scope": "user", "input": {}} | members
    if apply:
        return (await soon(desk.daemon.rules.make(who, NewRule(**form)))).rule_id
    made = desk.daemon.rules.apply
    desk.daemon.rules.apply = lambda rule: None  # type: ignore[method-assign]
    try:
        return (await soon(desk.daemon.rules.make(who, NewRule(**form)))).rule_id
    finally:
        desk.daemon.rules.apply = made  # type: ignore[method-assign]


async def two_people(folder: Path) -> None:
    """Have a second person at the daemon of this folder."""
    async with desk_in(folder) as desk:
        await desk.daemon.store.commit(Write([users.insert(BOB)]))


@pytest.mark.parametrize("scope", ["user", "workspace"])
async def test_the_rules_of_one_never_decide_for_another(folder: Path, scope: str) -> None:
    await two_people(folder)
    async with desk_in(folder) as desk:
        bob = Principal(user_id=BOB.user_id, name=BOB.name, role=BOB.role)
        scope_id = None if scope == "user" else str(desk.workspace)
        for effect in ("allow", "deny"):
            await add(desk, bob, effect=effect, scope=scope, scope_id=scope_id)
        session = await desk.session()
        task_id = await desk.prompt(session, [ask()])
        asked = await desk.asked(session)
        assert asked.status == "pending"
        await add(desk, bob, scope=scope, scope_id=scope_id)
        # What decides open questions has had its chance by the time that this is answered.
        done = await desk.decide(asked.permission_id, approved=True)
        assert (done.decided_by, done.decided_rule) == (desk.who.user_id, None)
        await desk.ended(session, task_id)


async def test_nobody_makes_or_sees_what_is_anothers(folder: Path) -> None:
    await two_people(folder)
    async with desk_in(folder) as desk:
        rules, admin = desk.daemon.rules, Principal(user_id="bob", name="bob", role="admin")
        member = Principal(user_id="bob", name="bob", role="member")
        session = await desk.session()
        its: dict[str, Any] = {"scope": "session", "scope_id": session}
        rule_id = await add(desk, desk.who, **its)
        for who in (admin, member):
            with pytest.raises((NotFound, Forbidden)):
                await add(desk, who, **its)
            assert (await rules.page(who, None, None, 10, only_live=False)).items == []
            found = await rules.preview(
                who, NewRule(effect="deny", tool="*", scope="user", input={})
            )
            assert found.looked_at == 0
        with pytest.raises(NotFound):
            await rules.get(member, rule_id)
        with pytest.raises(NotFound):
            await rules.revoke(member, rule_id)
        for call in (rules.page(member, desk.who.user_id, None, 10, only_live=True),
                     rules.export(member, desk.who.user_id)):  # fmt: skip
            with pytest.raises(Forbidden):
                await call
        listed = await rules.page(admin, desk.who.user_id, None, 10, only_live=True)
        assert [rule.rule_id for rule in listed.items] == [rule_id]
        assert len((await rules.export(admin, desk.who.user_id)).rules) == 1
        await rules.revoke(admin, rule_id)
        assert (await rules.get(desk.who, rule_id)).revoked_at is not None


async def test_an_answer_with_a_scope_is_for_whose_session_it_is(folder: Path) -> None:
    await two_people(folder)
    async with desk_in(folder) as desk:
        session = await desk.session()
        task_id = await desk.prompt(session, [ask()])
        asked = await desk.asked(session)
        admin = Principal(user_id="bob", name="bob", role="admin")
        decision = Decision(approved=True, scope="user", rule=DecisionRule())
        with pytest.raises(Forbidden):
            await desk.daemon.permissions.decide(admin, asked.permission_id, decision)
        await desk.decide(asked.permission_id, approved=True, scope="user")
        await desk.ended(session, task_id)
        (rule,) = (await desk.daemon.rules.page(desk.who, None, None, 9, only_live=True)).items
        assert rule.user_id == desk.who.user_id

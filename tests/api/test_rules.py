"""What permission rules decide, over HTTP, with an agent that really asks."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agor.daemon.store.base import Write
from agor.daemon.store.rows import AuditRecord
from agor.errors import StoreUnavailable
from tests.api.rule_steps import asks, decide, events, make, pending, questions_of, run
from tests.api.serving import Served, serving
from tests.contract.waiting import soon


@pytest.fixture
def records(served: Served, monkeypatch: pytest.MonkeyPatch) -> list[AuditRecord]:
    """What was handed in for the audit log about permissions and rules, in order."""
    return note_records(served, monkeypatch)


def note_records(served: Served, monkeypatch: pytest.MonkeyPatch) -> list[AuditRecord]:
    found: list[AuditRecord] = []
    commit = served.daemon.store.commit

    async def commit_and_note(write: Write) -> None:
        await commit(write)
        found.extend(
            record for record in write.records if record.action.startswith(("permission.", "rule."))
        )

    monkeypatch.setattr(served.daemon.store, "commit", commit_and_note)
    return found


# ── decided without a person ─────────────────────────────────────────────────────────────────


async def test_what_a_rule_allows_runs_and_the_record_names_the_rule(
    served: Served, records: list[AuditRecord]
) -> None:
    rule = await make(served, input={"command": "git status*"}, reason="it only looks")
    session = await served.new_session()
    task_id = await run(served, session, asks(command="git status -s"))
    (asked,) = await questions_of(served, task_id)
    assert (asked["status"], asked["decided_rule"], asked["decided_by"]) == (
        "approved", rule["rule_id"], None,
    )  # fmt: skip
    assert asked["decided_at"] >= asked["created_at"]
    assert rule["rule_id"] in asked["reason"]
    assert "it only looks" in asked["reason"]
    told = await events(served, session, "permission")
    assert told == [asked], "one event, already decided"
    assert "awaiting_permission" not in {
        task["status"] for task in await events(served, session, "task")
    }
    (made, decided) = records
    assert (made.action, made.actor_id, made.subject) == (
        "rule.made", served.who.user_id, rule["rule_id"],
    )  # fmt: skip
    assert (decided.action, decided.actor_id, decided.subject) == (
        "permission.decided", None, asked["permission_id"],
    )  # fmt: skip
    assert rule["rule_id"].encode() in decided.detail
    assert b"git status" not in decided.detail


async def test_what_a_rule_denies_does_not_run_and_the_agent_hears_why(served: Served) -> None:
    rule = await make(served, "deny", input={"command": "git push*"}, reason="ask me first")
    session = await served.new_session(permission_mode="bypassPermissions")
    task_id = await run(served, session, asks(command="git pull && git push -f"))
    (asked,) = await questions_of(served, task_id)
    assert (asked["status"], asked["decided_rule"]) == ("denied", rule["rule_id"])
    page = (await served.ask.get(f"/sessions/{session}/messages")).json()["items"]
    (result,) = [item["text"] for item in page if item["kind"] == "tool_result"]
    assert result == f"denied by the rule {rule['rule_id']}: ask me first"


async def test_a_trick_is_asked_about(served: Served) -> None:
    await make(served, input={"command": "git status*"})
    session = await served.new_session()
    task_id = await run(served, session, asks(command="git status; rm -rf /"))
    (asked,) = await pending(served)
    assert asked["tool_input"] == {"command": "git status; rm -rf /"}
    assert (await served.ask.get(f"/tasks/{task_id}")).json()["status"] == "awaiting_permission"
    await decide(served, asked["permission_id"], approved=False)
    await served.finished(task_id)


async def test_modes_decide_for_their_task(served: Served) -> None:
    session = await served.new_session()
    inside, outside = str(served.folder / "a.py"), "/etc/passwd"
    task_id = await run(
        served, session, asks("Write", file_path=inside), permission_mode="acceptEdits"
    )
    (asked,) = await questions_of(served, task_id)
    assert (asked["status"], asked["decided_rule"]) == ("approved", "mode:acceptEdits")
    task_id = await run(
        served, session, asks("Write", file_path=outside), permission_mode="acceptEdits"
    )
    (asked,) = await pending(served)
    await decide(served, asked["permission_id"], approved=False)
    await served.finished(task_id)
    task_id = await run(served, session, asks(), permission_mode="bypassPermissions")
    (asked,) = await questions_of(served, task_id)
    assert asked["decided_rule"] == "mode:bypassPermissions"
    assert "bypassPermissions" in asked["reason"]


async def test_time_that_is_over_is_audited_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"execution.permission_timeout_ms": 20}
    async with serving(tmp_path, **settings) as served:
        records = note_records(served, monkeypatch)
        session = await served.new_session()
        (asked,) = await questions_of(served, await run(served, session, asks()))
        assert (asked["status"], asked["decided_rule"]) == ("timed_out", None)
        (record,) = records
        assert (record.action, record.actor_id) == ("permission.decided", None)
        assert b'"status":"timed_out"' in record.detail


# ── made with an answer ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("approved", [True, False])
async def test_an_answer_for_the_session_is_remembered(
    served: Served, records: list[AuditRecord], approved: bool
) -> None:
    session = await served.new_session()
    task_id = await run(served, session, asks(), asks(), asks(command="git diff"))
    (first,) = await pending(served)
    answer = await decide(served, first["permission_id"], approved=approved, scope="session")
    assert answer.status_code == 200
    assert answer.json()["decided_by"] == served.who.user_id
    assert answer.json()["decided_rule"] is None
    (third,) = await pending(served)
    assert third["tool_input"] == {"command": "git diff"}, "another input is asked about"
    await decide(served, third["permission_id"], approved=True)
    (one, two, _) = await questions_of(served, task_id)
    (rule,) = (await served.ask.get("/permission-rules")).json()["items"]
    assert (two["decided_rule"], two["status"]) == (rule["rule_id"], one["status"])
    assert (rule["effect"], rule["scope"], rule["scope_id"], rule["permission_id"]) == (
        "allow" if approved else "deny", "session", session, first["permission_id"],
    )  # fmt: skip
    assert (rule["tool"], rule["exact_input"], rule["input"]) == (
        "Bash", {"command": "git status"}, None,
    )  # fmt: skip
    assert [(record.action, record.actor_id is None) for record in records] == [
        ("permission.decided", False), ("rule.made", False), ("permission.decided", True),
        ("permission.decided", False),
    ]  # fmt: skip


async def test_who_answers_what_was_just_stored_is_not_told_to_be_too_late(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can be seen in the list a moment before the daemon has heard that it is stored."""
    commit, told = served.daemon.store.commit, asyncio.Event()

    async def commit_and_tell_late(write: Write) -> None:
        await commit(write)
        if any("permission_requests" in sql for sql, _ in write.statements):
            await told.wait()

    session = await served.new_session()
    monkeypatch.setattr(served.daemon.store, "commit", commit_and_tell_late)
    task_id = await run(served, session, asks())
    (question,) = await pending(served)
    answering = asyncio.create_task(decide(served, question["permission_id"], approved=True))
    while not served.daemon.lives.held()[0].lock._waiters:
        assert not answering.done(), answering.result().text
        await asyncio.sleep(0)
    told.set()
    assert (await answering).status_code == 200
    assert (await served.finished(task_id))["status"] == "completed"


async def test_an_answer_may_be_for_more(served: Served) -> None:
    session = await served.new_session()
    task_id = await run(served, session, asks(command="git log -1"), asks(command="git log -2"))
    (first,) = await pending(served)
    rule = {"input": {"command": "git log *"}}
    answer = await decide(
        served, first["permission_id"], approved=True, scope="workspace", rule=rule
    )
    assert answer.status_code == 200
    (_, two) = await questions_of(served, task_id)
    (kept,) = (await served.ask.get("/permission-rules")).json()["items"]
    assert two["decided_rule"] == kept["rule_id"]
    assert (kept["scope"], kept["scope_id"]) == ("workspace", str(served.folder))


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        ({"scope": "once", "rule": {}}, "body.rule"),
        ({"scope": "user", "updated_input": {}}, "body.updated_input"),
        ({"scope": "user", "rule": {"tool": "*"}}, "body.tool"),
        ({"scope": "user", "rule": {"input": {"command": "rm *"}}}, "the very request"),
        ({"scope": "user", "rule": {"expires_at": 1}}, "past"),
        ({"scope": "user", "rule": {"effect": "deny"}}, "effect"),
        ({"scope": "team"}, "scope"),
    ],
)
async def test_an_answer_that_cannot_mean_what_it_says_decides_nothing(
    served: Served, decision: dict[str, Any], words: str
) -> None:
    session = await served.new_session()
    task_id = await run(served, session, asks())
    (asked,) = await pending(served)
    refused = await decide(served, asked["permission_id"], approved=True, **decision)
    assert refused.status_code == 422
    assert words in refused.json()["detail"]
    assert (await served.ask.get("/permission-rules")).json()["items"] == []
    await decide(served, asked["permission_id"], approved=True)
    await served.finished(task_id)


async def test_of_many_answers_with_a_scope_one_makes_a_rule(served: Served) -> None:
    session = await served.new_session()
    task_id = await run(served, session, asks())
    (asked,) = await pending(served)
    answers = await asyncio.gather(
        *(
            decide(served, asked["permission_id"], approved=n % 2 == 0, scope="user")
            for n in range(8)
        )
    )
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7
    (rule,) = (await served.ask.get("/permission-rules")).json()["items"]
    (asked,) = await questions_of(served, task_id)
    assert (rule["effect"] == "allow") == (asked["status"] == "approved")


async def test_a_repeated_answer_with_its_key_makes_one_rule(served: Served) -> None:
    session = await served.new_session()
    task_id = await run(served, session, asks())
    (asked,) = await pending(served)
    path = f"/permissions/{asked['permission_id']}/decision"
    body = {"approved": True, "scope": "user"}
    for _ in range(2):
        answer = await served.ask.post(path, json=body, headers={"idempotency-key": "k"})
        assert answer.status_code == 200
    assert len((await served.ask.get("/permission-rules")).json()["items"]) == 1
    await served.finished(task_id)


# ── what is open already ─────────────────────────────────────────────────────────────────────


async def test_a_new_rule_decides_what_is_open_already(served: Served) -> None:
    sessions = [await served.new_session() for _ in range(3)]
    commands = ("git log -1", "git log -2", "npm test")
    tasks = [
        await run(served, session, asks(command=command))
        for session, command in zip(sessions, commands, strict=True)
    ]
    open_ones = await pending(served, 3)
    first = next(one for one in open_ones if one["tool_input"]["command"] == "git log -1")
    rule = {"input": {"command": "git log *"}}
    await decide(served, first["permission_id"], approved=True, scope="user", rule=rule)
    (second,) = await questions_of(served, tasks[1])
    (kept,) = (await served.ask.get("/permission-rules")).json()["items"]
    assert (second["status"], second["decided_rule"]) == ("approved", kept["rule_id"])
    (left,) = await pending(served)
    assert left["tool_input"] == {"command": "npm test"}
    denied = await make(served, "deny", input={"command": "npm *"})
    (third,) = await questions_of(served, tasks[2])
    assert (third["status"], third["decided_rule"]) == ("denied", denied["rule_id"])


# ── revoked, expired ─────────────────────────────────────────────────────────────────────────


async def test_a_revoked_rule_decides_nothing_from_then_on(
    served: Served, records: list[AuditRecord]
) -> None:
    rule = await make(served)
    session = await served.new_session()
    (asked,) = await questions_of(served, await run(served, session, asks()))
    assert asked["decided_rule"] == rule["rule_id"]
    path = f"/permission-rules/{rule['rule_id']}"
    assert (await served.ask.delete(path)).status_code == 204
    assert (await served.ask.delete(path)).status_code == 204, "a second time does no harm"
    task_id = await run(served, session, asks())
    (asked,) = await pending(served)
    await decide(served, asked["permission_id"], approved=True)
    await served.finished(task_id)
    kept = (await served.ask.get(path)).json()
    assert kept["revoked_at"] is not None
    assert (await served.ask.get("/permission-rules")).json()["items"] == []
    everything = (await served.ask.get("/permission-rules?status=all")).json()["items"]
    assert everything == [kept]
    assert [record.action for record in records].count("rule.revoked") == 1


async def test_a_rule_ends_when_it_says(served: Served) -> None:
    rules = served.daemon.rules
    began = rules.clock()
    rule = await make(served, expires_at=began + 3_600_000)
    session = await served.new_session()
    (asked,) = await questions_of(served, await run(served, session, asks()))
    assert asked["decided_rule"] == rule["rule_id"]
    rules.clock = lambda: began + 3_600_000
    task_id = await run(served, session, asks())
    (asked,) = await pending(served)
    assert (await served.ask.get("/permission-rules")).json()["items"] == []
    assert (await served.ask.get("/permission-rules/export")).json()["rules"] == []
    await decide(served, asked["permission_id"], approved=True)
    await served.finished(task_id)


async def test_a_revocation_that_cannot_be_stored_is_none(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = await make(served)
    commit = served.daemon.store.commit

    async def fail(write: Write) -> None:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(served.daemon.store, "commit", fail)
    refused = await served.ask.delete(f"/permission-rules/{rule['rule_id']}")
    assert refused.status_code == 503
    monkeypatch.setattr(served.daemon.store, "commit", commit)
    session = await served.new_session()
    (asked,) = await questions_of(served, await run(served, session, asks()))
    assert asked["decided_rule"] == rule["rule_id"]


async def test_an_outage_delays_what_a_rule_decides_and_loses_nothing(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = await make(served)
    session = await served.new_session()
    commit, refused = served.daemon.store.commit, asyncio.Event()

    async def fail_to_decide(write: Write) -> None:
        if any(record.action == "permission.decided" for record in write.records):
            refused.set()
            raise StoreUnavailable("the disk is full")
        await commit(write)

    monkeypatch.setattr(served.daemon.store, "commit", fail_to_decide)
    task_id = await run(served, session, asks())
    await soon(refused.wait())
    assert (await served.ask.get("/permissions")).json()["items"] == []
    monkeypatch.setattr(served.daemon.store, "commit", commit)
    (asked,) = await questions_of(served, task_id)
    assert asked["decided_rule"] == rule["rule_id"]

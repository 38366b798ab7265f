"""Permission rules as a resource: tried out, made, listed, exported, bounded, kept."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.rule_steps import asks, decide, make, pending, questions_of, run
from tests.api.serving import Served, serving
from tests.api.world import peopled

# ── shown before it is saved ─────────────────────────────────────────────────────────────────


async def test_a_preview_shows_what_would_have_been_decided_and_saves_nothing(
    served: Served,
) -> None:
    session = await served.new_session()
    commands = ["git log -1", "npm test", "git log -2", "git log; rm x"]
    task_id = await run(served, session, *(asks(command=command) for command in commands))
    for place in range(len(commands)):
        (asked,) = await pending(served)
        await decide(served, asked["permission_id"], approved=place != 2)
    await served.finished(task_id)
    form = {"effect": "allow", "tool": "Bash", "scope": "user", "input": {"command": "git log*"}}
    found = (await served.ask.post("/permission-rules/preview", json=form)).json()
    assert (found["matched"], found["looked_at"], found["complete"]) == (2, 4, True)
    assert [(item["tool_input"]["command"], item["status"]) for item in found["items"]] == [
        ("git log -2", "denied"), ("git log -1", "approved"),
    ]  # fmt: skip
    elsewhere = form | {"scope": "workspace", "scope_id": "/elsewhere"}
    found = (await served.ask.post("/permission-rules/preview", json=elsewhere)).json()
    assert (found["matched"], found["looked_at"]) == (0, 4)
    deny = form | {"effect": "deny", "input": {"command": "rm *"}}
    found = (await served.ask.post("/permission-rules/preview", json=deny)).json()
    assert [item["tool_input"]["command"] for item in found["items"]] == ["git log; rm x"]
    assert (await served.ask.get("/permission-rules?status=all")).json()["items"] == []
    bad = await served.ask.post("/permission-rules/preview", json=form | {"tool": "*"})
    assert bad.status_code == 422


@pytest.mark.parametrize(
    ("members", "status", "words"),
    [
        ({"tool": "*"}, 422, "body.tool"),
        ({"input": None}, 422, "body.input"),
        ({"scope": "session"}, 422, "which session"),
        ({"scope": "session", "scope_id": "none"}, 404, "there is no session"),
        ({"scope": "workspace", "scope_id": "repo"}, 422, "body.scope_id"),
        ({"scope": "workspace", "scope_id": "/a/../b"}, 422, "body.scope_id"),
        ({"scope": "user", "scope_id": "bob"}, 422, "body.scope_id"),
        ({"input": {"x": "y" * 1001}}, 422, "body.input"),
        ({"input": {str(n): "" for n in range(21)}}, 422, "body.input"),
        ({"input": {"x": 5}}, 422, "body.input"),
        ({"input": {"url": "https://a*"}}, 422, "host"),
        ({"effect": "ask"}, 422, "body.effect"),
        ({"decided_rule": "x"}, 422, "decided_rule"),
    ],
)
async def test_a_form_that_is_wrong_is_refused_with_the_field(
    served: Served, members: dict[str, Any], status: int, words: str
) -> None:
    form = {"effect": "allow", "tool": "Bash", "scope": "user", "input": {}} | members
    for path in ("/permission-rules", "/permission-rules/preview"):
        refused = await served.ask.post(path, json=form)
        assert refused.status_code == status, refused.text
        assert words in refused.json()["detail"]


# ── listed, exported, bounded ────────────────────────────────────────────────────────────────


async def test_what_is_exported_can_be_made_again(served: Served) -> None:
    session = await served.new_session()
    later = served.daemon.rules.clock() + 10**9
    await make(served, input={"command": "git \\* *"}, expires_at=later)
    await make(served, "deny", tool="mcp__*", scope="workspace", scope_id="/repo", reason="no")
    await make(served, tool="a\\*", scope="session", scope_id=session, exact_input={"ä": [1, None]})
    revoked = await make(served)
    await served.ask.delete(f"/permission-rules/{revoked['rule_id']}")
    before = (await served.ask.get("/permission-rules/export")).json()
    assert len(before["rules"]) == 3
    for rule in (await served.ask.get("/permission-rules")).json()["items"]:
        await served.ask.delete(f"/permission-rules/{rule['rule_id']}")
    for form in before["rules"]:
        assert (await served.ask.post("/permission-rules", json=form)).status_code == 201
    after = (await served.ask.get("/permission-rules/export")).json()
    assert after["rules"] == before["rules"]


async def test_rules_are_listed_in_pages_and_made_once_by_their_key(served: Served) -> None:
    made = [await make(served, tool=f"Tool{number}") for number in range(5)]
    form = {"effect": "allow", "tool": "Tool5", "scope": "user", "input": {}}
    for _ in range(2):
        answer = await served.ask.post(
            "/permission-rules", json=form, headers={"idempotency-key": "k"}
        )
        assert answer.status_code == 201
    made.append(answer.json())
    first = (await served.ask.get("/permission-rules?limit=4")).json()
    rest = (await served.ask.get(f"/permission-rules?cursor={first['next_cursor']}")).json()
    assert (len(first["items"]), len(rest["items"]), rest["next_cursor"]) == (4, 2, None)
    listed = [rule["rule_id"] for rule in (*first["items"], *rest["items"])]
    assert sorted(listed) == sorted(rule["rule_id"] for rule in made)


async def test_there_is_an_end_to_rules_and_those_of_gone_sessions_do_not_count(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agor.daemon.services.rules.rules.MOST_RULES", 2)
    session = await served.new_session()
    await make(served, scope="session", scope_id=session)
    await make(served)
    form = {"effect": "allow", "tool": "Bash", "scope": "user", "input": {}}
    refused = await served.ask.post("/permission-rules", json=form)
    assert refused.status_code == 409
    assert "revoke" in refused.json()["hint"].lower()
    assert (await served.ask.delete(f"/sessions/{session}")).status_code == 204
    assert (await served.ask.post("/permission-rules", json=form)).status_code == 201
    assert len((await served.ask.get("/permission-rules?status=all")).json()["items"]) == 2


async def test_rules_survive_a_restart(tmp_path: Any) -> None:
    async with serving(tmp_path) as served:
        rule = await make(served, input={"command": "git *"})
        gone = await make(served, "deny")
        await served.ask.delete(f"/permission-rules/{gone['rule_id']}")
    async with serving(tmp_path) as served:
        session = await served.new_session()
        (asked,) = await questions_of(served, await run(served, session, asks()))
        assert asked["decided_rule"] == rule["rule_id"]


async def test_one_persons_rules_are_nobody_elses(tmp_path: Any) -> None:
    async with peopled(tmp_path) as world:
        ann, bob = await world.person("member"), await world.person("member")
        rule_id = await world.rule(ann)
        for method in ("GET", "DELETE"):
            answer = await world.send(method, f"/permission-rules/{rule_id}", headers=bob.headers)
            assert answer.status_code == 404
        assert (await world.ask(bob, "GET", "/permission-rules"))["items"] == []
        others = await world.send(
            "GET", f"/permission-rules?user_id={ann.user_id}", headers=bob.headers
        )
        assert others.status_code == 403
        # The home's owner may look at it, and take it away.
        seen = await world.ask(None, "GET", f"/permission-rules?user_id={ann.user_id}")
        assert [rule["rule_id"] for rule in seen["items"]] == [rule_id]
        await world.ask(None, "DELETE", f"/permission-rules/{rule_id}")
        assert (await world.ask(ann, "GET", "/permission-rules"))["items"] == []


async def test_what_one_allows_everywhere_is_asked_in_anothers_session(tmp_path: Any) -> None:
    async with peopled(tmp_path) as world:
        ann, bob = await world.person("member"), await world.person("admin")
        wide = {"effect": "allow", "tool": "Write", "scope": "user", "input": {}}
        await world.ask(bob, "POST", "/permission-rules", wide)
        there = wide | {"scope": "workspace", "scope_id": str(world.served.folder)}
        await world.ask(bob, "POST", "/permission-rules", there)
        session = await world.session(ann)
        task_id = await world.task(ann, session)
        asked = await world.ask(ann, "GET", "/permissions?status=pending")
        assert [item["task_id"] for item in asked["items"]] == [task_id]
        its = wide | {"scope": "session", "scope_id": session}
        answer = await world.send("POST", "/permission-rules", its, bob.headers)
        assert answer.status_code == 403

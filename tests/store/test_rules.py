"""Permission rules in the database."""

from __future__ import annotations

from typing import Any

import msgspec

from agor.daemon.store import rules, sessions
from agor.daemon.store.base import Store
from agor.daemon.store.rows import RuleRow
from tests.store.examples import ODD, a_session, put


def a_rule(name: str = "rule-1", **members: Any) -> RuleRow:
    return RuleRow(
        **{
            "rule_id": name,
            "user_id": "user-1",
            "effect": "allow",
            "scope": "user",
            "scope_id": "user-1",
            "tool": "Bash*",
            "reason": ODD,
            "permission_id": "permission-1",
            "created_at": 1_700_000_000_000,
            "expires_at": 1_700_000_600_000,
            "revoked_at": None,
            "input": b'{"command":"git *"}',
            "exact_input": None,
            **members,
        }
    )


async def test_a_rule_comes_back_as_it_was_stored(store: Store):
    rows = (
        a_rule(),
        a_rule("bare", input=None, exact_input=b"{}", reason=None, permission_id=None,
               expires_at=None),
    )  # fmt: skip
    for row in rows:
        await put(store, rules.insert(row))
        await put(store, rules.insert(row))
        assert await rules.get(store, row.rule_id) == row
    assert await rules.get(store, "nothing") is None


async def test_a_rule_is_revoked_once_and_kept(store: Store):
    row = a_rule(expires_at=None)
    await put(store, rules.insert(row), rules.insert(a_rule("other", expires_at=None)))
    await put(store, rules.revoke(row.rule_id, 50))
    await put(store, rules.revoke(row.rule_id, 60))
    assert await rules.get(store, row.rule_id) == msgspec.structs.replace(row, revoked_at=50)
    assert [each.rule_id for each in await rules.live(store, 70)] == ["other"]


async def test_those_that_hold_are_found_in_the_order_they_were_made(store: Store):
    rows = [
        a_rule("c", created_at=1, expires_at=None),
        a_rule("b", created_at=3, expires_at=100),
        a_rule("a", created_at=2, expires_at=101, user_id="user-2"),
        a_rule("d", created_at=4, expires_at=None, revoked_at=5),
    ]
    await put(store, *map(rules.insert, rows))
    assert [row.rule_id for row in await rules.live(store, 99)] == ["c", "a", "b"]
    assert [row.rule_id for row in await rules.live(store, 100)] == ["c", "a"]
    assert [row.rule_id for row in await rules.live(store, 100, "user-1")] == ["c"]
    assert await rules.live(store, 100, "nobody") == []


async def test_pages_are_of_one_person(store: Store):
    rows = [
        a_rule(f"r{number}", created_at=number // 2, user_id=f"u{number % 3 == 0}",
               expires_at=None if number % 2 else 10)
        for number in range(1, 10)
    ]  # fmt: skip
    await put(store, *map(rules.insert, rows))

    async def names(at: int | None, before: tuple[int, str] | None = None, limit: int = 100):
        return [row.rule_id for row in await rules.page(store, "uFalse", at, before, limit)]

    assert await names(None) == ["r8", "r7", "r5", "r4", "r2", "r1"]
    assert await names(None, None, 2) == ["r8", "r7"]
    assert await names(None, (3, "r7"), 2) == ["r5", "r4"]
    assert await names(10) == ["r7", "r5", "r1"]


async def test_the_rules_of_a_session_go_with_it(store: Store):
    session = a_session()
    await put(
        store,
        sessions.insert(session),
        rules.insert(a_rule("its", scope="session", scope_id=session.session_id)),
        rules.insert(a_rule("another's", scope="session", scope_id="another")),
        rules.insert(a_rule("wider", scope="workspace", scope_id=session.session_id)),
    )
    assert await sessions.workspaces(store, [session.session_id, "none"]) == {
        session.session_id: session.workspace
    }
    await put(store, *sessions.delete(session))
    assert [row.rule_id for row in await rules.live(store, 0)] == ["another's", "wider"]
    assert await sessions.workspaces(store, [session.session_id]) == {}
    assert await sessions.workspaces(store, []) == {}

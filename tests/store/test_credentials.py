"""Credentials in the database: one of a name for each person, sealed anew only if unchanged."""

from __future__ import annotations

import msgspec

from agor.daemon.store import credentials
from agor.daemon.store.base import Store
from agor.daemon.store.credentials import TEAM
from tests.store.examples import a_credential, put

KEY = "ANTHROPIC_API_KEY"


async def test_a_credential_comes_back_as_it_was_stored(store: Store):
    for row in (a_credential(), a_credential("BARE", base_url=None, agents=None)):
        await put(store, credentials.put(row))
        assert await credentials.get(store, "user-1", row.name) == row
    assert await credentials.get(store, "user-1", "ANOTHER") is None
    assert await credentials.get(store, "user-2", KEY) is None
    assert await credentials.get(store, TEAM, KEY) is None


async def test_a_second_one_of_a_name_takes_the_place_of_the_first(store: Store):
    await put(store, credentials.put(a_credential(last_used_at=5)))
    second = a_credential(
        credential_id="second", sealed=b"other", key_version=2, created_at=9, updated_at=9
    )
    await put(store, credentials.put(second))
    await put(store, credentials.put(second))
    kept = msgspec.structs.replace(second, created_at=1_700_000_000_000)
    assert await credentials.get(store, "user-1", KEY) == kept
    assert await credentials.counts(store) == {2: 1}


async def test_people_and_the_team_each_have_their_own(store: Store):
    rows = [a_credential(user=user) for user in ("user-1", "user-2", TEAM)]
    await put(store, *map(credentials.put, rows), credentials.put(a_credential("A", TEAM)))
    mine = await credentials.visible_to(store, "user-1")
    assert [(row.name, row.user_id) for row in mine] == [("A", TEAM), (KEY, "user-1"), (KEY, TEAM)]
    assert await credentials.names_of(store, TEAM) == {"A", KEY}
    await put(store, credentials.remove(rows[0].credential_id), credentials.remove("never there"))
    assert await credentials.get(store, "user-1", KEY) is None
    assert await credentials.get(store, "user-2", KEY) == rows[1]


async def test_it_is_known_when_one_was_used(store: Store):
    await put(store, credentials.put(a_credential()), credentials.used("user-1-" + KEY, 77))
    found = await credentials.get(store, "user-1", KEY)
    assert found
    assert found.last_used_at == 77


async def test_one_that_was_replaced_meanwhile_is_not_sealed_over(store: Store):
    """Else a rotation would bring an old key back."""
    before = a_credential()
    after = msgspec.structs.replace(before, sealed=b"anew", key_version=2)
    await put(store, credentials.put(before), credentials.reseal(before, after))
    assert await credentials.get(store, "user-1", KEY) == after
    replaced = msgspec.structs.replace(before, sealed=b"another value")
    await put(store, credentials.put(replaced), credentials.reseal(before, after))
    assert await credentials.get(store, "user-1", KEY) == replaced


async def test_those_on_another_version_come_in_pages(store: Store):
    rows = [a_credential(f"K{n}", key_version=1 + n % 3) for n in range(9)]
    await put(store, *map(credentials.put, rows))
    assert await credentials.counts(store) == {1: 3, 2: 3, 3: 3}
    first = await credentials.not_sealed_with(store, 3, "", 4)
    rest = await credentials.not_sealed_with(store, 3, first[-1].credential_id, 4)
    assert [row.name for row in (*first, *rest)] == ["K0", "K1", "K3", "K4", "K6", "K7"]
    assert [row.name for row in await credentials.sealed_with(store, 3, 2)] == ["K2", "K5"]

"""Accounts and their ways in, in the database."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from agor.daemon.store import api_tokens, sign_ins, users
from agor.daemon.store.base import Store
from agor.daemon.store.rows import ApiTokenRow, SignInRow
from agor.errors import StoreError
from tests.store.examples import ODD, a_user, put


def an_api_token(name: str = "token-1", **members: Any) -> ApiTokenRow:
    return ApiTokenRow(
        **{
            "token_id": name,
            "user_id": "user-1",
            "name": ODD,
            "token_hash": b"\x00\xff" + name.encode(),
            "created_at": 1_700_000_000_000,
            "expires_at": 1_700_000_900_000,
            "last_used_at": None,
            "revoked_at": None,
            **members,
        }
    )


def a_sign_in(name: str = "sign-in-1", **members: Any) -> SignInRow:
    return SignInRow(
        **{
            "sign_in_id": name,
            "user_id": "user-1",
            "secret_hash": b"\x00\xff" + name.encode(),
            "created_at": 1_700_000_000_000,
            "expires_at": 1_700_000_900_000,
            **members,
        }
    )


async def test_a_person_is_changed_in_all_but_who_they_are(store: Store):
    before = a_user("a")
    after = msgspec.structs.replace(
        before, name="ada", role="viewer", unix_username="ada", password_hash="$x$", disabled_at=7
    )
    await put(store, users.insert(before), users.insert(a_user("b")))
    await put(store, users.update(after))
    await put(store, users.update(after))
    assert await users.get(store, "a") == after
    assert await users.get(store, "b") == a_user("b")
    back = msgspec.structs.replace(after, unix_username=None, password_hash=None, disabled_at=None)
    await put(store, users.update(back))
    assert await users.get(store, "a") == back


async def test_two_people_cannot_have_one_name(store: Store):
    await put(store, users.insert(a_user("a")))
    same = msgspec.structs.replace(a_user("b"), name=a_user("a").name)
    with pytest.raises(StoreError):
        await put(store, users.insert(same))
    assert [row.user_id for row in await users.all_of(store)] == ["a"]


async def test_the_hash_of_a_password_is_in_no_representation():
    assert "$argon2" not in repr(a_user("a", password_hash="$argon2id$…"))


async def test_a_token_that_is_good_comes_back_as_it_was_stored(store: Store):
    rows = [an_api_token("a"), an_api_token("b", expires_at=None, last_used_at=2**50)]
    await put(store, *map(api_tokens.insert, rows))
    await put(store, *map(api_tokens.insert, rows))
    assert await api_tokens.live(store, 1_700_000_000_001) == rows
    assert await api_tokens.get(store, "b") == rows[1]
    assert await api_tokens.get(store, "c") is None


async def test_what_has_expired_or_was_revoked_is_not_among_the_good(store: Store):
    rows = [an_api_token("a", expires_at=10), an_api_token("b", expires_at=11), an_api_token("c")]
    await put(store, *map(api_tokens.insert, rows))
    await put(store, api_tokens.revoke("c", 5))
    await put(store, api_tokens.revoke("c", 6))
    assert [row.token_id for row in await api_tokens.live(store, 10)] == ["b"]
    found = await api_tokens.get(store, "c")
    assert found
    assert found.revoked_at == 5, "the first time it was ended stays"


async def test_the_last_use_of_a_token_is_kept(store: Store):
    await put(store, api_tokens.insert(an_api_token("a")), api_tokens.insert(an_api_token("b")))
    await put(store, api_tokens.used("a", 77))
    assert [row.last_used_at for row in await api_tokens.live(store, 0)] == [77, None]


async def test_tokens_that_ended_long_ago_are_forgotten(store: Store):
    rows = [
        an_api_token("expired", expires_at=5),
        an_api_token("revoked", expires_at=None, revoked_at=5),
        an_api_token("just expired", expires_at=10),
        an_api_token("eternal", expires_at=None),
    ]
    await put(store, *map(api_tokens.insert, rows))
    await put(store, api_tokens.purge(10))
    kept = [row.token_id for row in rows if await api_tokens.get(store, row.token_id)]
    assert kept == ["just expired", "eternal"]


async def test_two_tokens_cannot_have_one_hash(store: Store):
    await put(store, api_tokens.insert(an_api_token("a", token_hash=b"same")))
    with pytest.raises(StoreError):
        await put(store, api_tokens.insert(an_api_token("b", token_hash=b"same")))


async def test_a_sign_in_lasts_until_it_is_ended_or_expires(store: Store):
    rows = [a_sign_in("a"), a_sign_in("b", expires_at=10), a_sign_in("c")]
    await put(store, *map(sign_ins.insert, rows))
    await put(store, *map(sign_ins.insert, rows))
    assert await sign_ins.live(store, 9) == rows
    await put(store, sign_ins.remove("a"), sign_ins.remove("never there"))
    assert await sign_ins.live(store, 10) == [rows[2]]
    await put(store, sign_ins.purge(11))
    assert await sign_ins.live(store, 0) == [rows[2]]

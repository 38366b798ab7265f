"""API tokens: shown once, stored as hashes, refused from the moment they end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from agor.daemon.services.people import api_tokens
from agor.daemon.services.stamps import now
from agor.daemon.store import api_tokens as stored
from agor.errors import StoreUnavailable
from agor.protocol.people import Role
from tests.api.people import Witness, asking, person
from tests.api.serving import Served, serving
from tests.contract.waiting import soon

DAY = 24 * 3600 * 1000
ROLES: list[Role] = ["owner", "admin", "member", "viewer"]


async def make(client: Any, **members: object) -> dict[str, Any]:
    answer = await client.post("/tokens", json={"name": "ci", **members})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def status_with(served: Served, token: str, path: str = "/auth/me") -> int:
    async with asking(served, token) as client:
        return (await client.get(path)).status_code


@pytest.mark.parametrize("role", ROLES)
async def test_a_token_stands_for_whoever_made_it(served: Served, role: Role) -> None:
    async with person(served, "ada", role) as ada:
        made = await make(ada.ask)
        assert made["token"].startswith("agor_")
        assert len(made["token"]) == 5 + 43, "256 bits"
        async with asking(served, made["token"]) as program:
            me = (await program.get("/auth/me")).json()
        assert (me["user_id"], me["role"], me["via"]) == (ada.user_id, role, "api_token")
        assert me["expires_at"] == made["expires_at"]


async def test_it_is_shown_once_and_kept_as_a_hash(served: Served) -> None:
    made = await make(served.ask)
    token = made.pop("token")
    (listed,) = (await served.ask.get("/tokens")).json()["items"]
    assert listed == made
    for path in served.folder.rglob("*"):
        if path.is_file() and path.name != "token":
            assert token.encode() not in path.read_bytes(), path
            assert token.removeprefix("agor_").encode() not in path.read_bytes(), path


async def test_making_and_revoking_are_audited_without_it(served: Served) -> None:
    witness = Witness(served.daemon)
    made = await make(served.ask, name="for the nightly run")
    assert (await served.ask.delete(f"/tokens/{made['token_id']}")).status_code == 204
    assert witness.actions == ["token.made", "token.revoked"]
    record, detail = witness.last("token.made")
    assert (record.actor_id, record.subject) == (served.who.user_id, made["token_id"])
    assert detail["name"] == "for the nightly run"
    assert made["token"] not in repr(witness.writes)
    assert witness.together("token.revoked").statements


async def test_it_expires_in_90_days_unless_told_otherwise(served: Served) -> None:
    made = await make(served.ask)
    assert made["expires_at"] - made["created_at"] == 90 * DAY
    assert (await make(served.ask, expires_at=None))["expires_at"] is None
    at = now() + DAY
    assert (await make(served.ask, expires_at=at))["expires_at"] == at
    for wrong in (0, 1, now() - 1, -5, "tomorrow", 2**60):
        answer = await served.ask.post("/tokens", json={"name": "x", "expires_at": wrong})
        assert answer.status_code == 422, wrong


async def test_an_expired_one_is_refused_and_its_feeds_are_told(served: Served) -> None:
    ended: list[str] = []
    served.daemon.people.on_revoked.append(ended.append)
    made = await make(served.ask, expires_at=now() + DAY)
    assert await status_with(served, made["token"]) == 200
    served.daemon.api_tokens.clock = lambda: now() + DAY + 1
    assert await status_with(served, made["token"]) == 401
    assert (await served.ask.get("/tokens")).json()["items"] == []
    assert ended == []
    await served.daemon.upkeep.go_round()
    assert ended == [made["token_id"]]


async def test_a_revoked_one_is_refused_at_once_over_every_way(served: Served) -> None:
    ended: list[str] = []
    served.daemon.people.on_revoked.append(ended.append)
    session_id = await served.new_session()
    made = await make(served.ask)
    feed = f"/sessions/{session_id}/events"
    headers = {"authorization": f"Bearer {made['token']}"}
    async with connect(f"ws{served.url[4:]}{feed}", additional_headers=headers, proxy=None):
        pass
    async with asking(served, made["token"]) as program:
        assert (await program.get("/sessions")).status_code == 200
        await served.ask.delete(f"/tokens/{made['token_id']}")
        assert ended == [made["token_id"]]
        assert (await program.get("/sessions")).status_code == 401
        assert (await program.post("/sessions", json={})).status_code == 401
        assert (await program.get(feed)).status_code == 401
    with pytest.raises(InvalidStatus) as refused:
        await soon(
            connect(
                f"ws{served.url[4:]}{feed}", additional_headers=headers, proxy=None
            ).__aenter__()
        )
    assert refused.value.response.status_code == 401
    assert (await served.ask.delete(f"/tokens/{made['token_id']}")).status_code == 404


async def test_a_disabled_users_token_is_refused_at_once_and_good_again_later(
    served: Served,
) -> None:
    async with person(served, "ada") as ada:
        assert (await ada.ask.get("/auth/me")).status_code == 200
        await served.ask.patch(f"/users/{ada.user_id}", json={"disabled": True})
        assert (await ada.ask.get("/auth/me")).status_code == 401
        await served.ask.patch(f"/users/{ada.user_id}", json={"disabled": False})
        assert (await ada.ask.get("/auth/me")).status_code == 200


async def test_after_a_restart_the_good_are_good_and_the_ended_are_not(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        good, revoked = await make(served.ask), await make(served.ask)
        await served.ask.delete(f"/tokens/{revoked['token_id']}")
    async with serving(tmp_path) as served:
        assert await status_with(served, good["token"]) == 200
        assert await status_with(served, revoked["token"]) == 401


async def test_letting_in_takes_no_database(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await make(served.ask)
    asked: list[str] = []
    for name in ("read", "snapshot", "commit"):

        async def refuse(*_: object, name: str = name) -> None:
            asked.append(name)
            raise StoreUnavailable("not now")

        monkeypatch.setattr(served.daemon.store, name, refuse)
    assert await status_with(served, made["token"]) == 200
    assert asked == []
    assert await status_with(served, "agor_" + "x" * 43) == 401
    await served.daemon.refusals.settled()
    assert asked == ["commit"], "a refusal is written down, and nobody waits for it"


# ── the last use ─────────────────────────────────────────────────────────────────────────────


async def test_the_last_use_is_known_at_once_and_written_once_a_minute(served: Served) -> None:
    made = await make(served.ask)
    tokens = served.daemon.api_tokens
    witness = Witness(served.daemon)
    assert made["last_used_at"] is None
    began = now()
    for _ in range(5):
        await status_with(served, made["token"])
    assert witness.writes == [], "no request waits for it"
    (listed,) = (await served.ask.get("/tokens")).json()["items"]
    assert listed["last_used_at"] >= began
    await tokens.write_uses()
    await tokens.write_uses()
    assert len(witness.writes) == 1
    row = await stored.get(served.daemon.store, made["token_id"])
    assert row is not None
    assert row.last_used_at == listed["last_used_at"]
    await status_with(served, made["token"])
    await tokens.write_uses()
    assert len(witness.writes) == 1, "within the minute"
    tokens.clock = lambda: now() + 60_000
    await status_with(served, made["token"])
    await tokens.write_uses()
    assert len(witness.writes) == 2


async def test_the_last_use_is_written_before_the_daemon_ends(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        made = await make(served.ask)
        await status_with(served, made["token"])
    async with serving(tmp_path) as served:
        (listed,) = (await served.ask.get("/tokens")).json()["items"]
        assert listed["last_used_at"] is not None


# ── whose ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("actor", ROLES)
@pytest.mark.parametrize("whose", ROLES)
async def test_who_may_see_and_revoke_whose(served: Served, actor: Role, whose: Role) -> None:
    async with person(served, "whose", whose) as other, person(served, "who", actor) as who:
        listed = await who.ask.get("/tokens", params={"user_id": other.user_id})
        sees = actor in ("owner", "admin")
        assert listed.status_code == (200 if sees else 404)
        if sees:
            assert [each["token_id"] for each in listed.json()["items"]] == [other.token_id]
        revoked = await who.ask.delete(f"/tokens/{other.token_id}")
        may = actor == "owner" or (actor == "admin" and whose in ("member", "viewer"))
        assert revoked.status_code == (204 if may else 403 if sees else 404)
        assert await status_with(served, other.token) == (401 if may else 200)


async def test_ones_own_are_ones_own_to_list_and_revoke(served: Served) -> None:
    async with person(served, "ada", "viewer") as ada:
        made = await make(ada.ask)
        names = [each["token_id"] for each in (await ada.ask.get("/tokens")).json()["items"]]
        assert names == [made["token_id"], ada.token_id], "the newest first"
        first = await ada.ask.get("/tokens", params={"limit": 1})
        rest = await ada.ask.get("/tokens", params={"cursor": first.json()["next_cursor"]})
        assert [each["token_id"] for each in rest.json()["items"]] == [ada.token_id]
        assert (await ada.ask.delete(f"/tokens/{made['token_id']}")).status_code == 204
        nobody = {"user_id": "nobody"}
        assert (await served.ask.get("/tokens", params=nobody)).status_code == 404


async def test_a_token_cannot_outlive_itself_by_making_another(served: Served) -> None:
    short = await make(served.ask, expires_at=now() + DAY)
    async with asking(served, short["token"]) as program:
        assert (await make(program))["expires_at"] == short["expires_at"]
        for longer in (None, short["expires_at"] + 1):
            answer = await program.post("/tokens", json={"name": "x", "expires_at": longer})
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_one_person_has_so_many_at_most(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_tokens, "MOST_OF_ONE", 3)
    for _ in range(3):
        last = await make(served.ask)
    assert (await served.ask.post("/tokens", json={"name": "x"})).status_code == 409
    await served.ask.delete(f"/tokens/{last['token_id']}")
    await make(served.ask)


async def test_a_key_is_refused_where_a_secret_is_given(served: Served) -> None:
    answer = await served.ask.post(
        "/tokens", json={"name": "x"}, headers={"idempotency-key": "again"}
    )
    assert answer.status_code == 422
    assert (await served.ask.get("/tokens")).json()["items"] == []

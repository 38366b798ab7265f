"""Users: who may add, see and change whom; and that somebody always rules."""

from __future__ import annotations

import asyncio
import pwd
from typing import Any

import pytest

from agor.daemon.services.people.people import principal
from agor.daemon.store.rows import UserRow
from agor.errors import Forbidden
from agor.protocol.people import NewUser, Role, UserChange
from tests.api.people import Witness, add, asking, cheapen, person
from tests.api.serving import Served, serving

ROLES: list[Role] = ["owner", "admin", "member", "viewer"]
#: A Unix user that is neither root nor whoever runs the tests.
SOMEBODY = "daemon"


async def test_the_owner_of_the_home_needs_no_set_up(served: Served) -> None:
    me = (await served.ask.get("/auth/me")).json()
    assert (me["role"], me["via"], me["has_password"]) == ("owner", "local_token", False)
    assert (await served.ask.get("/users")).json()["items"] == [
        {name: value for name, value in me.items() if name not in ("via", "expires_at")}
    ]


async def test_somebody_is_added_shown_and_listed(served: Served) -> None:
    cheapen(served.daemon)
    witness = Witness(served.daemon)
    added = await add(served, "Ada", "admin", unix_username=SOMEBODY, password="0123456789")
    assert (added["name"], added["role"], added["unix_username"]) == ("ada", "admin", SOMEBODY)
    assert (added["has_password"], added["disabled_at"]) == (True, None)
    assert "0123456789" not in str(added)
    assert (await served.ask.get(f"/users/{added['user_id']}")).json() == added
    assert (await served.ask.get("/users")).json()["items"][1:] == [added]
    record, detail = witness.last("user.added")
    assert (record.actor_id, record.subject) == (served.who.user_id, added["user_id"])
    assert detail == {
        "name": "ada", "role": "admin", "unix_username": SOMEBODY, "password": True
    }  # fmt: skip
    assert len(witness.together("user.added").statements) == 1


@pytest.mark.parametrize("name", ["Ada", "ADA", "ada"])
async def test_names_that_differ_by_case_are_one_name(served: Served, name: str) -> None:
    await add(served, "aDa")
    answer = await served.ask.post("/users", json={"name": name})
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert len((await served.ask.get("/users")).json()["items"]) == 2


async def test_of_two_who_add_one_name_at_once_one_succeeds(served: Served) -> None:
    answers = await asyncio.gather(
        *(served.ask.post("/users", json={"name": name}) for name in ("ada", "ADA", "Ada"))
    )
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409]


@pytest.mark.parametrize(
    "members",
    [{"name": ""}, {"name": "a" * 65}, {"name": "a b"}, {"name": "ä"}, {"name": "a\n"},
     {"name": None}, {}, {"name": "a", "role": "god"}, {"name": "a", "password": "123456789"},
     {"name": "a", "password": "x" * 1025}, {"name": "a", "unix_username": ""},
     {"name": "a", "unix_username": "-x"}, {"name": "a", "unix_username": "a:b"},
     {"name": "a", "unix_username": "no-such-user-here"}, {"name": "a", "unix_username": "root"},
     {"name": "a", "admin": True}, {"name": "daemon"}, {"name": "Stranger"}],
    ids=str,
)  # fmt: skip
async def test_what_cannot_be_is_refused(served: Served, members: dict[str, Any]) -> None:
    answer = await served.ask.post("/users", json=members)
    assert (answer.status_code, answer.json()["code"]) == (422, "unprocessable")
    assert len((await served.ask.get("/users")).json()["items"]) == 1


@pytest.mark.parametrize("name", ["a", "A" * 64, "ada.lovelace@example.org", "x_y-z.9"])
async def test_such_names_are_names(served: Served, name: str) -> None:
    assert (await add(served, name))["name"] == name.lower()


async def test_a_unix_user_that_could_read_the_keys_is_refused_by_any_name(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = pwd.getpwnam(SOMEBODY)
    monkeypatch.setattr("os.getuid", lambda: other.pw_uid)
    user_id = (await add(served, "ada"))["user_id"]
    for name in ("root", SOMEBODY):
        answer = await served.ask.patch(f"/users/{user_id}", json={"unix_username": name})
        assert answer.status_code == 422
        assert "keys" in answer.json()["detail"]


async def test_a_directory_that_does_not_answer_keeps_nobody_from_being_mapped(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str) -> None:
        raise OSError("no answer from the directory")

    monkeypatch.setattr("pwd.getpwnam", broken)
    assert (await add(served, "ada", unix_username="far-away"))["unix_username"] == "far-away"
    answer = await served.ask.post("/users", json={"name": "eve", "unix_username": "root"})
    assert answer.status_code == 422


async def test_everybody_is_listed_page_by_page(served: Served) -> None:
    names = [f"user-{n}" for n in range(7)]
    for name in names:
        await add(served, name)
    found: list[str] = []
    cursor = None
    while True:
        query = {"limit": 3} | ({"cursor": cursor} if cursor else {})
        page = (await served.ask.get("/users", params=query)).json()
        found += [user["name"] for user in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found[1:] == names


# ── who may what to whom ─────────────────────────────────────────────────────────────────────


def may_change(actor: Role, target: Role) -> bool:
    return actor == "owner" or (actor == "admin" and target in ("member", "viewer"))


@pytest.mark.parametrize("actor", ROLES)
@pytest.mark.parametrize("target", ROLES)
async def test_who_may_change_whom(served: Served, actor: Role, target: Role) -> None:
    cheapen(served.daemon)
    whom = (await add(served, "whom", target))["user_id"]
    async with person(served, "who", actor) as who:
        allowed = may_change(actor, target)
        expected = 200 if allowed else 403
        for change in ({"unix_username": SOMEBODY}, {"disabled": True}, {"disabled": False}):
            answer = await who.ask.patch(f"/users/{whom}", json=change)
            assert answer.status_code == expected, (change, answer.text)
        answer = await who.ask.put(f"/users/{whom}/password", json={"password": "0123456789"})
        # To those who may not even see them, they do not exist.
        stranger = 403 if actor == "admin" else 404
        assert answer.status_code == (204 if allowed else stranger)
        seen = actor in ("owner", "admin")
        assert (await who.ask.get(f"/users/{whom}")).status_code == (200 if seen else 404)
        assert (await who.ask.get("/users")).status_code == (200 if seen else 403)


@pytest.mark.parametrize("actor", ROLES)
@pytest.mark.parametrize("role", ROLES)
async def test_who_may_make_whom(served: Served, actor: Role, role: Role) -> None:
    async with person(served, "who", actor) as who:
        allowed = may_change(actor, role)
        answer = await who.ask.post("/users", json={"name": "new", "role": role})
        assert answer.status_code == (201 if allowed else 403)
        for start in ROLES:
            whom = (await add(served, f"was-{start}", start))["user_id"]
            answer = await who.ask.patch(f"/users/{whom}", json={"role": role})
            expected = may_change(actor, start) and (allowed or role == start)
            assert answer.status_code == (200 if expected else 403), start


@pytest.mark.parametrize("role", ["owner", "admin"])
async def test_nobody_changes_their_own_role(served: Served, role: Role) -> None:
    async with person(served, "who", role) as who:
        for other in ROLES:
            answer = await who.ask.patch(f"/users/{who.user_id}", json={"role": other})
            assert answer.status_code == (200 if other == role else 403)


async def test_an_admin_cannot_become_an_owner_by_way_of_a_unix_user(served: Served) -> None:
    """Two who are the same Unix user read each other's files: that is for an owner to decide."""
    own = f"/users/{served.who.user_id}"
    assert (await served.ask.patch(own, json={"unix_username": SOMEBODY})).status_code == 200
    async with person(served, "ada", "admin") as ada, person(served, "bob") as bob:
        mapped = {"unix_username": SOMEBODY}
        for whom in (ada, bob):
            assert (await ada.ask.patch(f"/users/{whom.user_id}", json=mapped)).status_code == 403
        new = {"name": "eve", **mapped}
        assert (await ada.ask.post("/users", json=new)).status_code == 403
        assert (await served.ask.post("/users", json=new)).status_code == 201
        assert (await served.ask.patch(f"/users/{bob.user_id}", json=mapped)).status_code == 200
        # What is so already stays changeable in other ways.
        change = {"role": "viewer", **mapped}
        assert (await ada.ask.patch(f"/users/{bob.user_id}", json=change)).status_code == 200


async def test_the_service_refuses_what_the_route_would(served: Served) -> None:
    """A member is kept from their own account by the service as well, should a route let them."""
    accounts = served.daemon.accounts
    async with person(served, "ada") as ada:
        who = principal(served.daemon.people.get(ada.user_id))
        for work in (
            accounts.change(who, ada.user_id, UserChange(unix_username=SOMEBODY)),
            accounts.add(who, NewUser(name="eve")),
        ):
            with pytest.raises(Forbidden):
                await work
        with pytest.raises(Forbidden):
            accounts.page(who, None, 10)


async def test_a_member_sees_themselves_and_nobody_else(served: Served) -> None:
    async with person(served, "ada") as ada:
        assert (await ada.ask.get(f"/users/{ada.user_id}")).json()["name"] == "ada"
        there = await ada.ask.get(f"/users/{served.who.user_id}")
        nobody = await ada.ask.get("/users/nobody")
        assert there.status_code == nobody.status_code == 404


# ── the last owner ───────────────────────────────────────────────────────────────────────────


async def test_the_last_owner_stays(served: Served) -> None:
    own = f"/users/{served.who.user_id}"
    answer = await served.ask.patch(own, json={"disabled": True})
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    async with person(served, "bea", "owner") as bea:
        assert (await bea.ask.patch(own, json={"role": "member"})).status_code == 200
        assert (
            await bea.ask.patch(f"/users/{bea.user_id}", json={"disabled": True})
        ).status_code == 409


async def test_an_owner_who_is_disabled_does_not_count(served: Served) -> None:
    bea = f"/users/{(await add(served, 'bea', 'owner'))['user_id']}"
    own = f"/users/{served.who.user_id}"
    assert (await served.ask.patch(bea, json={"disabled": True})).status_code == 200
    assert (await served.ask.patch(own, json={"disabled": True})).status_code == 409
    assert (await served.ask.patch(bea, json={"disabled": False})).status_code == 200
    assert (await served.ask.patch(own, json={"disabled": True})).status_code == 200


async def test_two_owners_cannot_end_each_other_at_once(served: Served) -> None:
    async with person(served, "ada", "owner") as ada, person(served, "bea", "owner") as bea:
        await ada.ask.patch(f"/users/{served.who.user_id}", json={"disabled": True})
        answers = await asyncio.gather(
            ada.ask.patch(f"/users/{bea.user_id}", json={"role": "viewer"}),
            bea.ask.patch(f"/users/{ada.user_id}", json={"role": "viewer"}),
        )
        assert sorted(answer.status_code for answer in answers) in ([200, 403], [200, 409])
        owners = [
            row
            for row in served.daemon.people.everybody()
            if row.role == "owner" and row.disabled_at is None
        ]
        assert len(owners) == 1


# ── what follows from a change ───────────────────────────────────────────────────────────────


async def test_a_change_is_audited_with_it_and_told_after_it(served: Served) -> None:
    witness = Witness(served.daemon)
    user_id = (await add(served, "ada"))["user_id"]
    told: list[tuple[UserRow, list[str]]] = []
    served.daemon.people.on_change.append(lambda _, row: told.append((row, witness.actions)))
    path = f"/users/{user_id}"
    await served.ask.patch(path, json={"role": "viewer", "unix_username": SOMEBODY})
    record, detail = witness.last("user.changed")
    assert (record.actor_id, record.subject) == (served.who.user_id, user_id)
    assert detail["role"] == ["member", "viewer"]
    assert detail["unix_username"] == [None, SOMEBODY]
    await served.ask.patch(path, json={"disabled": True})
    await served.ask.patch(path, json={"disabled": True})
    await served.ask.patch(path, json={})
    await served.ask.patch(path, json={"disabled": False})
    assert witness.actions == ["user.added", "user.changed", "user.disabled", "user.enabled"]
    assert [row.disabled_at is None for row, _ in told] == [True, False, True]
    assert [actions[-1] for _, actions in told] == witness.actions[1:]


async def test_a_listener_that_fails_stops_nothing(served: Served) -> None:
    told: list[str] = []

    def fail(before: UserRow, row: UserRow) -> None:
        raise ValueError("broken")

    served.daemon.people.on_change += [fail, lambda _, row: told.append(row.name)]
    user_id = (await add(served, "ada"))["user_id"]
    answer = await served.ask.patch(f"/users/{user_id}", json={"disabled": True})
    assert answer.status_code == 200
    assert told == ["ada"]


async def test_a_new_role_counts_at_once(served: Served) -> None:
    async with person(served, "ada", "viewer") as ada:
        new = {"agentic_tool": "scripted", "workspace": str(served.folder)}
        assert (await ada.ask.post("/sessions", json=new)).status_code == 403
        await served.ask.patch(f"/users/{ada.user_id}", json={"role": "member"})
        assert (await ada.ask.post("/sessions", json=new)).status_code == 201


async def test_everybody_is_still_there_after_a_restart(tmp_path: Any) -> None:
    async with serving(tmp_path) as served:
        cheapen(served.daemon)
        added = await add(served, "ada", "admin", password="0123456789")
        me = (await served.ask.get("/auth/me")).json()
    async with serving(tmp_path) as served:
        assert (await served.ask.get(f"/users/{added['user_id']}")).json() == added
        assert (await served.ask.get("/auth/me")).json() == me


async def test_the_local_token_is_refused_while_the_owner_of_the_home_is_disabled(
    served: Served,
) -> None:
    async with person(served, "bea", "owner") as bea:
        own = f"/users/{served.who.user_id}"
        await bea.ask.patch(own, json={"disabled": True})
        assert (await served.ask.get("/auth/me")).status_code == 401
        await bea.ask.patch(own, json={"disabled": False})
        assert (await served.ask.get("/auth/me")).status_code == 200


async def test_a_key_is_refused_where_a_password_is_given(served: Served) -> None:
    """A receipt has a fast hash of what was asked, and that must never be of a password."""
    answer = await served.ask.post(
        "/users", json={"name": "ada", "password": "0123456789"}, headers={"idempotency-key": "k"}
    )
    assert answer.status_code == 422
    assert "Idempotency-Key" in answer.json()["detail"]
    async with asking(served) as stranger:
        assert (await stranger.post("/users", json={"name": "ada"})).status_code == 401

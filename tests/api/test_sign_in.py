"""Signing in with a browser: by password, by one-time code; the cookie; and the way out."""

from __future__ import annotations

import asyncio
import time
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from argon2 import PasswordHasher

from agor.daemon.api.settings import ApiSettings
from agor.daemon.services.people import sign_ins
from agor.daemon.services.people.signing_in import SignedIn
from agor.daemon.services.principal import Principal
from agor.daemon.services.stamps import now
from agor.daemon.store import users
from agor.daemon.store.base import Write
from agor.protocol import people as forms
from tests.api.people import PASSWORD, Witness, add, asking, browsing, cheapen, person, sign_in
from tests.api.serving import Served, serving


@pytest.fixture
async def ada(served: Served) -> str:
    """Somebody with a password."""
    cheapen(served.daemon)
    user_id: str = (await add(served, "ada", password=PASSWORD))["user_id"]
    return user_id


def cookie_of(answer: httpx.Response) -> Any:
    (morsel,) = SimpleCookie(answer.headers["set-cookie"]).values()
    return morsel


async def me(client: httpx.AsyncClient) -> int:
    return (await client.get("/auth/me")).status_code


# ── by password ──────────────────────────────────────────────────────────────────────────────


async def test_a_name_and_its_password_open_the_door(served: Served, ada: str) -> None:
    async with asking(served) as browser:
        answer = await sign_in(browser, "ADA", PASSWORD)
        assert answer.status_code == 200
        assert answer.json()["user_id"] == ada
        found = (await browser.get("/auth/me")).json()
        assert found == answer.json()
        assert found["via"] == "sign_in"
        assert now() < found["expires_at"] <= now() + sign_ins.LIFE
        assert (await browser.get("/sessions")).status_code == 200


async def test_the_cookie_is_for_the_daemon_alone(served: Served, ada: str) -> None:
    async with asking(served) as browser:
        cookie = cookie_of(await sign_in(browser, "ada", PASSWORD))
    assert len(cookie.value) == 43, "256 bits"
    assert cookie["httponly"] is True
    assert cookie["samesite"] == "Strict"
    assert cookie["path"] == "/"
    assert cookie["domain"] == ""
    assert cookie["secure"] == "", "it is served over plain HTTP, to this machine"
    assert int(cookie["max-age"]) == sign_ins.LIFE // 1000
    assert cookie.key == f"agor_{served.port}", "browsers do not tell ports apart"


async def test_behind_https_the_cookie_is_for_https_alone(tmp_path: Path) -> None:
    settings = ApiSettings(allowed_hosts=("agor.example",), https_proxy=True)
    async with serving(tmp_path, settings=settings) as served, asking(served) as browser:
        cheapen(served.daemon)
        await add(served, "ada", password=PASSWORD)
        page = {"host": "agor.example", "origin": "https://agor.example"}
        cookie = cookie_of(await sign_in(browser, "ada", PASSWORD, **page))
        assert cookie["secure"] is True
        assert cookie.key == "__Host-agor"
        shown = {"host": "agor.example", "cookie": f"{cookie.key}={cookie.value}"}
        assert (await browser.get("/auth/me", headers=shown)).status_code == 200
        plain = await sign_in(
            browser, "ada", PASSWORD, origin="http://agor.example", host="agor.example"
        )
        assert plain.status_code == 403, "a page that came without HTTPS is anybody's"
        # The machine itself is not behind the proxy.
        local = cookie_of(await sign_in(browser, "ada", PASSWORD, origin=served.url))
        assert local["secure"] == ""


async def test_the_cookie_is_kept_nowhere_and_audited_nowhere(served: Served, ada: str) -> None:
    witness = Witness(served.daemon)
    async with asking(served) as browser:
        secret = cookie_of(await sign_in(browser, "ada", PASSWORD)).value
    for path in served.folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert secret.encode() not in content
            assert PASSWORD.encode() not in content
    assert secret not in repr(witness.writes)
    record, detail = witness.last("signin.ok")
    assert (record.actor_id, record.actor, record.result) == (ada, "ada", "ok")
    assert detail == {"by": "password", "address": "127.0.0.1"}


async def test_all_that_is_wrong_is_refused_in_one_way(served: Served, ada: str) -> None:
    """Who is there cannot be learnt: not from words, not from headers."""
    await add(served, "without")
    disabled = (await add(served, "disabled", password=PASSWORD))["user_id"]
    await served.ask.patch(f"/users/{disabled}", json={"disabled": True})
    tried = [
        ("ada", "wrong password"),
        ("nobody", PASSWORD),
        ("without", PASSWORD),
        ("disabled", PASSWORD),
        ("ada", ""),
        ("a b'c\x00", PASSWORD),
        ("ada ", PASSWORD),
    ]
    answers = []
    async with asking(served) as browser:
        for name, password in tried:
            answer = await sign_in(browser, name, password)
            assert "set-cookie" not in answer.headers
            kept = {k: v for k, v in answer.headers.items() if k != "date"}
            answers.append((answer.status_code, kept, answer.text))
    assert answers[0][0] == 401
    assert [each == answers[0] for each in answers] == [True] * len(tried)


async def test_a_password_is_compared_whoever_it_is(
    served: Served, ada: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same work for a name that nobody has: time tells nothing."""
    compared: list[str] = []
    passwords = served.daemon.passwords
    matches = passwords._matches

    def watch(stored: str, password: str) -> bool:
        compared.append(stored)
        return matches(stored, password)

    monkeypatch.setattr(passwords, "_matches", watch)
    async with asking(served) as browser:
        for name in ("ada", "nobody"):
            await sign_in(browser, name, "wrong password")
    assert len(compared) == 2
    assert [each.split("$")[1:4] for each in compared] == [compared[0].split("$")[1:4]] * 2


@pytest.mark.parametrize(
    "body",
    [{}, {"name": "ada"}, {"password": PASSWORD}, {"name": "a", "password": "", "code": "x"},
     {"name": "", "password": PASSWORD}, {"code": ""}, {"name": 5, "password": PASSWORD},
     {"name": "ada", "password": "x" * 1025}, {"name": "ada", "password": PASSWORD, "remember": 1}],
    ids=str,
)  # fmt: skip
async def test_what_is_neither_is_refused(served: Served, ada: str, body: Any) -> None:
    async with asking(served) as browser:
        answer = await browser.post("/auth/login", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "unprocessable")
    assert PASSWORD not in answer.text


async def test_a_new_sign_in_ends_the_one_that_the_browser_had(served: Served, ada: str) -> None:
    ended: list[str] = []
    served.daemon.people.on_revoked.append(ended.append)
    async with asking(served) as browser, asking(served) as thief:
        first = cookie_of(await sign_in(browser, "ada", PASSWORD))
        thief.cookies.set(first.key, first.value, domain="127.0.0.1")
        assert await me(thief) == 200
        second = cookie_of(await sign_in(browser, "ada", PASSWORD))
        assert second.value != first.value
        assert (await me(browser), await me(thief)) == (200, 401)
    assert len(ended) == 1


async def test_two_browsers_are_two_sign_ins(served: Served, ada: str) -> None:
    async with browsing(served, "ada") as one, browsing(served, "ada") as other:
        assert (await one.post("/auth/logout")).status_code == 204
        assert (await me(one), await me(other)) == (401, 200)


async def test_one_person_has_so_many_browsers_at_most(
    served: Served, ada: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_ins, "MOST_OF_ONE", 2)
    async with (
        browsing(served, "ada") as first,
        browsing(served, "ada") as second,
        browsing(served, "ada") as third,
    ):
        assert [await me(each) for each in (first, second, third)] == [401, 200, 200]


# ── its end ──────────────────────────────────────────────────────────────────────────────────


async def test_signing_out_ends_it_for_good(served: Served, ada: str) -> None:
    ended: list[str] = []
    served.daemon.people.on_revoked.append(ended.append)
    witness = Witness(served.daemon)
    async with browsing(served, "ada") as browser:
        kept = dict(browser.cookies)
        answer = await browser.post("/auth/logout")
        assert answer.status_code == 204
        cookie = cookie_of(answer)
        assert (cookie.value, cookie["max-age"], cookie["path"]) == ("", "0", "/")
        assert await me(browser) == 401
        for name, value in kept.items():
            browser.cookies.set(name, value, domain="127.0.0.1")
        assert await me(browser) == 401
    record, _ = witness.last("signin.ended")
    assert ended == [record.subject]


async def test_a_token_has_nothing_to_sign_out_of(served: Served, ada: str) -> None:
    assert (await served.ask.post("/auth/logout")).status_code == 409
    async with person(served, "bob") as bob:
        assert (await bob.ask.post("/auth/logout")).status_code == 409


async def test_it_expires(served: Served, ada: str) -> None:
    ended: list[str] = []
    served.daemon.people.on_revoked.append(ended.append)
    async with browsing(served, "ada") as browser:
        served.daemon.sign_ins.clock = lambda: now() + sign_ins.LIFE + 1
        assert await me(browser) == 401
        await served.daemon.upkeep.go_round()
        assert len(ended) == 1


async def test_it_outlives_a_restart_unless_it_ended_before(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        cheapen(served.daemon)
        await add(served, "ada", password=PASSWORD)
        async with browsing(served, "ada") as kept, browsing(served, "ada") as ended:
            secrets = [next(iter(each.cookies.values())) for each in (kept, ended)]
            await ended.post("/auth/logout")
    async with serving(tmp_path) as served, asking(served) as browser:
        for secret, expected in zip(secrets, (200, 401), strict=True):
            shown = {"cookie": f"other=1; agor_{served.port}={secret}"}
            assert (await browser.get("/auth/me", headers=shown)).status_code == expected


async def test_who_is_disabled_is_out_at_once_and_has_to_sign_in_anew(
    served: Served, ada: str
) -> None:
    ended: list[str] = []
    served.daemon.people.on_revoked.append(ended.append)
    async with browsing(served, "ada") as browser:
        await served.ask.patch(f"/users/{ada}", json={"disabled": True})
        assert await me(browser) == 401
        assert len(ended) == 1
        assert (await sign_in(browser, "ada", PASSWORD)).status_code == 401
        await served.ask.patch(f"/users/{ada}", json={"disabled": False})
        assert await me(browser) == 401
        assert (await sign_in(browser, "ada", PASSWORD)).status_code == 200


async def test_who_is_disabled_while_they_sign_in_does_not_come_in(
    served: Served, ada: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify = served.daemon.passwords.verify

    async def slow(stored: str | None, password: str) -> bool:
        right = await verify(stored, password)
        await served.ask.patch(f"/users/{ada}", json={"disabled": True})
        return right

    monkeypatch.setattr(served.daemon.passwords, "verify", slow)
    async with asking(served) as browser:
        assert (await sign_in(browser, "ada", PASSWORD)).status_code == 401
    assert served.daemon.sign_ins.of(ada) == []


@pytest.mark.parametrize(("typed", "expected"), [(PASSWORD, 401), ("the new password", 200)])
async def test_the_password_that_counts_is_the_one_there_is_at_the_end(
    served: Served, ada: str, monkeypatch: pytest.MonkeyPatch, typed: str, expected: int
) -> None:
    """It is changed while somebody signs in: the old one does not slip through any more."""
    verify = served.daemon.passwords.verify
    new = {"password": "the new password"}

    async def slow(stored: str | None, password: str) -> bool:
        right = await verify(stored, password)
        monkeypatch.undo()
        await served.ask.put(f"/users/{ada}/password", json=new)
        return right

    monkeypatch.setattr(served.daemon.passwords, "verify", slow)
    async with asking(served) as browser:
        assert (await sign_in(browser, "ada", typed)).status_code == expected


async def test_two_who_sign_in_at_once_with_a_hash_of_old_parameters_both_come_in(
    served: Served, ada: str
) -> None:
    old = PasswordHasher(2, 16, 1).hash(PASSWORD)
    served.daemon.people.put(
        msgspec.structs.replace(served.daemon.people.get(ada), password_hash=old)
    )
    async with asking(served) as one, asking(served) as other:
        answers = await asyncio.gather(*(sign_in(each, "ada", PASSWORD) for each in (one, other)))
    assert [answer.status_code for answer in answers] == [200, 200]


# ── passwords ────────────────────────────────────────────────────────────────────────────────


async def set_password(client: httpx.AsyncClient, user_id: str, **body: str) -> int:
    return (await client.put(f"/users/{user_id}/password", json=body)).status_code


async def test_ones_own_password_takes_the_current_one(served: Served, ada: str) -> None:
    new = "another battery staple"
    witness = Witness(served.daemon)
    async with browsing(served, "ada") as here, browsing(served, "ada") as elsewhere:
        assert await set_password(here, ada, password=new) == 422
        assert await set_password(here, ada, password=new, current_password="wrong one") == 403
        assert await me(elsewhere) == 200
        assert await set_password(here, ada, password=new, current_password=PASSWORD) == 204
        assert (await me(here), await me(elsewhere)) == (200, 401), "every other sign-in ends"
        record, detail = witness.last("user.password_set")
        assert (record.actor_id, record.subject, detail) == (ada, ada, {"sign_ins_ended": 1})
        assert len(witness.together("user.password_set").statements) == 2
        assert new not in repr(witness.writes)
    async with asking(served) as browser:
        assert (await sign_in(browser, "ada", PASSWORD)).status_code == 401
        assert (await sign_in(browser, "ada", new)).status_code == 200


async def test_a_stolen_token_cannot_change_the_password(served: Served) -> None:
    cheapen(served.daemon)
    witness = Witness(served.daemon)
    async with person(served, "ada", "owner", password=PASSWORD) as ada:
        assert await set_password(ada.ask, ada.user_id, password="0123456789") == 422
        for _ in range(20):
            last = await set_password(
                ada.ask, ada.user_id, password="0123456789", current_password="guess"
            )
        assert last == 429, "guessing is throttled here, too"
        await served.daemon.refusals.settled()
        record, detail = witness.last("user.password_set")
        assert (record.actor_id, record.result) == (ada.user_id, "refused")
        assert detail == {"address": "127.0.0.1", "reason": "wrong current password"}


async def test_the_local_token_needs_no_current_one(served: Served) -> None:
    cheapen(served.daemon)
    own = served.who.user_id
    for password in ("0123456789", "9876543210"):
        assert await set_password(served.ask, own, password=password) == 204
    async with asking(served) as browser:
        name = served.who.name
        assert (await sign_in(browser, name, "0123456789")).status_code == 401
        assert (await sign_in(browser, name, "9876543210")).status_code == 200


async def test_a_password_that_an_owner_sets_ends_every_sign_in(served: Served, ada: str) -> None:
    ended: list[str] = []
    served.daemon.people.on_revoked.append(ended.append)
    async with browsing(served, "ada") as one, browsing(served, "ada") as other:
        assert await set_password(served.ask, ada, password="0123456789") == 204
        assert [await me(one), await me(other)] == [401, 401]
        assert len(ended) == 2


async def test_a_hash_of_old_parameters_is_made_anew_when_its_owner_signs_in(
    served: Served, ada: str
) -> None:
    old = PasswordHasher(2, 16, 1).hash(PASSWORD)
    row = msgspec.structs.replace(served.daemon.people.get(ada), password_hash=old)
    await served.daemon.store.commit(Write([users.update(row)]))
    served.daemon.people.put(row)
    for _ in range(2):
        async with asking(served) as browser:
            assert (await sign_in(browser, "ada", PASSWORD)).status_code == 200
    stored = await users.get(served.daemon.store, ada)
    assert stored is not None
    assert stored.password_hash not in (None, old)
    assert not served.daemon.passwords.is_outdated(str(stored.password_hash))


async def test_requests_are_answered_while_passwords_are_compared(served: Served) -> None:
    """With the real cost: the loop is free while a dozen passwords are being compared."""
    await add(served, "ada", password=PASSWORD)
    async with asking(served) as browser:
        work = [
            asyncio.create_task(sign_in(browser, name, PASSWORD))
            for name in [f"name-{n}" for n in range(12)]
        ]
        answered = 0
        while not all(task.done() for task in work):
            assert (await served.ask.get("/livez")).status_code == 200
            answered += 1
        assert {(await task).status_code for task in work} == {401}
    assert answered > 12


# ── by code ──────────────────────────────────────────────────────────────────────────────────


async def redeem(served: Served, code: str) -> int:
    async with asking(served) as browser:
        answer = await browser.post("/auth/login", json={"code": code})
        if answer.status_code == 200:
            assert (await browser.get("/auth/me")).json()["user_id"] == served.who.user_id
        return answer.status_code


async def test_a_code_signs_a_browser_in_once(served: Served) -> None:
    witness = Witness(served.daemon)
    made = (await served.ask.post("/auth/link")).json()
    assert len(made["code"]) == 43
    assert 0 < made["expires_at"] - now() <= 60_000
    assert await redeem(served, made["code"]) == 200
    assert await redeem(served, made["code"]) == 401
    assert witness.last("signin.ok")[1]["by"] == "code"
    assert made["code"] not in repr(witness.writes)


async def test_a_code_that_two_redeem_at_once_is_good_for_one(served: Served) -> None:
    code = (await served.ask.post("/auth/link")).json()["code"]
    found = await asyncio.gather(*(redeem(served, code) for _ in range(5)))
    assert sorted(found) == [200, 401, 401, 401, 401]


async def test_a_code_is_good_for_a_minute(served: Served) -> None:
    code = (await served.ask.post("/auth/link")).json()["code"]
    served.daemon.signing_in.clock = lambda: now() + 60_000
    assert await redeem(served, code) == 401


async def test_only_the_local_token_gets_one(served: Served, ada: str) -> None:
    async with person(served, "bea", "owner") as bea:
        assert (await bea.ask.post("/auth/link")).status_code == 403
    async with browsing(served, "ada") as browser:
        assert (await browser.post("/auth/link")).status_code == 403


async def test_there_are_so_many_codes_at_most(served: Served) -> None:
    for _ in range(150):
        last = (await served.ask.post("/auth/link")).json()["code"]
    assert len(served.daemon.signing_in._codes) <= 100
    assert await redeem(served, last) == 200


def test_secrets_show_in_no_representation() -> None:
    secret = "hush-hush-hush"
    who = Principal(user_id="1", name="ada", role="owner")
    made = forms.MadeToken(
        token_id="1", user_id="1", name="x", created_at=int(time.time()), expires_at=None,
        last_used_at=None, token=secret,
    )  # fmt: skip
    holders: list[object] = [
        forms.NewUser(name="a", password=secret),
        forms.NewPassword(password=secret, current_password=secret),
        forms.SignInRequest(name="a", password=secret, code=secret),
        forms.SignInCode(code=secret, expires_at=1),
        made,
        SignedIn(who, secret),
    ]
    for holder in holders:
        assert secret not in f"{holder!r} {holder!s}"

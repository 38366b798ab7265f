"""Guessing passwords over HTTP: refused with 429, audited in bounds, and never for ever."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import httpx
import pytest

from agor.daemon.api.settings import ApiSettings
from agor.daemon.services.people import refusals
from agor.daemon.services.people.throttle import FREE_BY_ADDRESS, FREE_BY_NAME, LONGEST_WAIT
from agor.daemon.services.stamps import now
from agor.errors import StoreUnavailable
from tests.api.people import PASSWORD, Witness, add, asking, cheapen, sign_in
from tests.api.serving import Served, serving


class Clock:
    def __init__(self) -> None:
        self.now = 50_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def clock(served: Served) -> Clock:
    """The time that the throttle goes by."""
    cheapen(served.daemon)
    await add(served, "ada", password=PASSWORD)
    served.daemon.throttle.clock = clock = Clock()
    return clock


async def guess(client: httpx.AsyncClient, name: str, times: int, **headers: str) -> list[int]:
    answers = [await sign_in(client, name, "a wrong guess", **headers) for _ in range(times)]
    return [answer.status_code for answer in answers]


async def test_who_guesses_has_to_wait_and_is_told_how_long(served: Served, clock: Clock) -> None:
    async with asking(served) as browser:
        assert await guess(browser, "ada", FREE_BY_NAME) == [401] * FREE_BY_NAME
        answer = await sign_in(browser, "ada", PASSWORD)
        assert (answer.status_code, answer.json()["code"]) == (429, "too_many_attempts")
        assert answer.headers["retry-after"] == "1"
        assert "set-cookie" not in answer.headers
        clock.now += 1
        assert (await sign_in(browser, "ada", PASSWORD)).status_code == 200
        assert await guess(browser, "ada", FREE_BY_NAME) == [401] * FREE_BY_NAME


@pytest.mark.parametrize("name", ["ada", "nobody"])
async def test_it_is_the_same_for_a_name_that_nobody_has(
    served: Served, clock: Clock, name: str
) -> None:
    async with asking(served) as browser:
        found = await guess(browser, name, FREE_BY_NAME + 3)
        assert found == [401] * FREE_BY_NAME + [429] * 3
        assert await guess(browser, name.upper(), 1) == [429], "the case is no way round"


async def test_nobody_is_locked_out_for_longer_than_a_quarter_of_an_hour(
    served: Served, clock: Clock
) -> None:
    async with asking(served) as browser:
        for _ in range(30):
            await guess(browser, "ada", 1)
            answer = await sign_in(browser, "ada", "a wrong guess")
            if answer.status_code == 429:
                assert int(answer.headers["retry-after"]) <= LONGEST_WAIT
                clock.now += int(answer.headers["retry-after"])
        clock.now += LONGEST_WAIT
        assert (await sign_in(browser, "ada", PASSWORD)).status_code == 200


async def test_an_address_that_tries_many_names_is_refused_with_any(
    served: Served, clock: Clock
) -> None:
    async with asking(served) as browser:
        for n in range(FREE_BY_ADDRESS):
            assert await guess(browser, f"name-{n}", 1) == [401]
        assert (await sign_in(browser, "ada", PASSWORD)).status_code == 429
        assert (await browser.post("/auth/login", json={"code": "x"})).status_code == 429
        # Tokens are another way in, and go on.
        assert (await served.ask.get("/auth/me")).status_code == 200


async def test_behind_the_proxy_each_client_has_its_own_count(tmp_path: Path) -> None:
    settings = ApiSettings(https_proxy=True)
    async with serving(tmp_path, settings=settings) as served, asking(served) as proxy:
        cheapen(served.daemon)
        served.daemon.throttle.clock = Clock()
        await add(served, "ada", password=PASSWORD)
        for n in range(FREE_BY_ADDRESS):
            forged = f"198.51.100.{n}, 203.0.113.9"
            assert await guess(proxy, f"name-{n}", 1, **{"x-forwarded-for": forged}) == [401]
        bad, good = ({"x-forwarded-for": each} for each in ("203.0.113.9", "203.0.113.10"))
        assert (await sign_in(proxy, "ada", PASSWORD, **bad)).status_code == 429
        assert (await sign_in(proxy, "ada", PASSWORD, **good)).status_code == 200


async def test_without_a_proxy_nobody_says_where_they_come_from(
    served: Served, clock: Clock
) -> None:
    async with asking(served) as browser:
        for n in range(FREE_BY_ADDRESS):
            await guess(browser, f"name-{n}", 1, **{"x-forwarded-for": f"203.0.113.{n}"})
        assert await guess(browser, "x", 1, **{"x-forwarded-for": "203.0.113.99"}) == [429]


async def test_a_database_that_fails_is_held_against_nobody(
    served: Served, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise StoreUnavailable("not now")

    with monkeypatch.context() as broken:
        broken.setattr(served.daemon.store, "commit", fail)
        async with asking(served) as browser:
            for _ in range(2 * FREE_BY_ADDRESS):
                assert (await sign_in(browser, "ada", PASSWORD)).status_code == 503
    async with asking(served) as browser:
        assert (await sign_in(browser, "ada", PASSWORD)).status_code == 200


# ── the audit log ────────────────────────────────────────────────────────────────────────────


async def test_a_refusal_is_audited_without_what_was_typed(served: Served, clock: Clock) -> None:
    witness = Witness(served.daemon)
    async with asking(served) as browser:
        await guess(browser, "ada", FREE_BY_NAME + 1)
        await sign_in(browser, "my secret passphrase", "ada")
    async with asking(served, "agor_" + "x" * 43) as program:
        await program.get("/sessions")
    await served.daemon.refusals.settled()
    found = Counter(witness.actions)
    assert found == {"signin.refused": FREE_BY_NAME + 2, "token.refused": 1}
    assert {record.result for record in witness.records} == {"refused"}
    assert {record.actor for record in witness.records} == {"stranger"}
    subjects = [record.subject for record in witness.records]
    assert subjects[0] is not None, "whose account it was tried on"
    assert witness.last("token.refused")[1] == {"address": "127.0.0.1", "reason": "not known"}
    for typed in ("guess", "passphrase", "xxxx"):
        assert typed not in repr(witness.writes)


async def test_an_attacker_cannot_fill_the_database(served: Served) -> None:
    witness = Witness(served.daemon)
    at = now()
    served.daemon.refusals.clock = lambda: at
    async with asking(served, "agor_" + "x" * 43) as program:
        for _ in range(50):
            await program.get("/sessions")
        await served.daemon.refusals.settled()
        assert len(witness.records) == refusals.BY_ADDRESS
        at += 60_000
        await served.daemon.upkeep.go_round()
        await served.daemon.refusals.settled()
        assert len(witness.records) == refusals.BY_ADDRESS + 1
        _, detail = witness.last("token.refused")
        unwritten = 50 - refusals.BY_ADDRESS
        assert detail == {"not_written": unwritten, "addresses": {"127.0.0.1": unwritten}}
        await program.get("/sessions")
        await served.daemon.refusals.settled()
        assert witness.last("token.refused")[1]["reason"] == "not known", "a new minute"


async def test_what_was_only_counted_is_written_before_the_daemon_ends(served: Served) -> None:
    witness = Witness(served.daemon)
    for _ in range(50):
        served.daemon.refusals.note("token.refused", "10.0.0.1", None, "x")
    await served.daemon.upkeep.finish()
    assert witness.last("token.refused")[1]["not_written"] == 50 - refusals.BY_ADDRESS


async def test_nor_from_many_addresses(served: Served) -> None:
    witness = Witness(served.daemon)
    at = now()
    noted = served.daemon.refusals
    noted.clock = lambda: at
    noted.roll()
    for n in range(5000):
        noted.note("token.refused", f"10.{n // 65536}.{n // 256 % 256}.{n % 256}", None, "x")
    await noted.settled()
    assert len(witness.records) <= refusals.IN_ALL
    assert len(noted._unwritten["token.refused"]) <= 1001
    at += 60_000
    noted.roll()
    await noted.settled()
    assert len(witness.records) <= refusals.IN_ALL + 1
    assert witness.last("token.refused")[1]["not_written"] == 5000 - refusals.IN_ALL


async def test_a_refusal_waits_for_no_database(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise StoreUnavailable("not now")

    monkeypatch.setattr(served.daemon.store, "commit", fail)
    async with asking(served, "agor_" + "x" * 43) as program:
        assert (await program.get("/sessions")).status_code == 401
    await served.daemon.refusals.settled()

"""The audit log over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from agor.daemon.services.audit import log as audit_log
from agor.daemon.services.audit import verification
from agor.daemon.services.audit.anchors import Anchor
from agor.daemon.services.audit.records import STRANGER, record
from agor.daemon.services.principal import Principal
from agor.daemon.store import users
from agor.daemon.store.base import Statement, Store, Write
from agor.errors import Forbidden
from agor.protocol.audit import AuditVerification
from tests.api.serving import Served, serving
from tests.contract.waiting import soon
from tests.store.examples import a_record, a_user

ANNA = Principal(user_id="anna-1", name="anna", role="member")


@pytest.fixture
async def busy(tmp_path: Path) -> AsyncIterator[Served]:
    """A daemon in which something happened."""
    async with serving(tmp_path) as served:
        anna = msgspec.structs.replace(a_user("anna-1"), name="anna", role="member")
        await served.daemon.store.commit(
            Write(
                [users.insert(anna)],
                records=[
                    record("credential.set", ANNA, subject="KEY"),
                    record("credential.delivered", ANNA, session_id="s-1", subject="KEY"),
                    record("credentials.odd", ANNA),
                    record("signin.refused", actor=STRANGER, result="refused", name="root"),
                    record("session.shared", served.who, session_id="s-1", subject="anna"),
                ],
            )
        )
        served.daemon.people.put(anna)
        yield served


async def actions(served: Served, query: str = "") -> list[str]:
    answer = await served.ask.get(f"/audit{query}")
    assert answer.status_code == 200, answer.text
    return [item["action"] for item in answer.json()["items"]]


async def test_all_of_it_is_listed_the_newest_first(busy: Served) -> None:
    answer = await busy.ask.get("/audit")
    items: list[dict[str, Any]] = answer.json()["items"]
    assert [item["number"] for item in items] == [6, 5, 4, 3, 2, 1]
    assert items[-1]["action"] == "daemon.started"
    assert items[-1]["actor"] == "daemon"
    newest = items[0]
    assert newest["user_id"] == busy.who.user_id
    assert (newest["subject"], newest["session_id"], newest["result"]) == ("anna", "s-1", "ok")
    assert len(newest["hash"]) == 64
    assert items[1]["detail"] == {"name": "root"}


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("?user_id=anna-1", ["credentials.odd", "credential.delivered", "credential.set"]),
        ("?user=anna", ["credentials.odd", "credential.delivered", "credential.set"]),
        ("?user=stranger", ["signin.refused"]),
        ("?user=daemon", ["daemon.started"]),
        ("?session_id=s-1", ["session.shared", "credential.delivered"]),
        ("?action=credential.set", ["credential.set"]),
        ("?action=credential.", ["credential.delivered", "credential.set"]),
        ("?action=nothing.", []),
        ("?user=anna&session_id=s-1&action=credential.", ["credential.delivered"]),
        ("?before=1", []),
        ("?after=99999999999999", []),
        ("?limit=1", ["session.shared"]),
    ],
)
async def test_it_is_asked_by_person_session_action_and_time(
    busy: Served, query: str, wanted: list[str]
) -> None:
    assert await actions(busy, query) == wanted


async def test_times_are_from_and_until_just_before(busy: Served) -> None:
    records = [a_record(str(at), at=at) for at in (1000, 2000, 3000)]
    await busy.daemon.store.commit(Write(records=records))
    answer = await busy.ask.get("/audit?after=1000&before=3000&action=thing.done")
    assert [item["subject"] for item in answer.json()["items"]] == ["2000", "1000"]


async def test_pages_have_each_record_once_also_while_others_come(busy: Served) -> None:
    seen: list[int] = []
    cursor = ""
    while True:
        page = (await busy.ask.get(f"/audit?limit=2{cursor}")).json()
        seen += [item["number"] for item in page["items"]]
        await busy.daemon.store.commit(Write(records=[record("thing.done")]))
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == [6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize(
    "query",
    [
        "?user=nobody", "?user=anna&user_id=anna-1", "?action=*", "?action=credential", "?after=x",
        "?cursor=x.y", "?limit=0", "?who=anna", "/verification?cursor=1",
        "/verification?cursor=1.abc",
    ],
)  # fmt: skip
async def test_what_makes_no_sense_is_refused(busy: Served, query: str) -> None:
    answer = await busy.ask.get(f"/audit{query}")
    assert answer.status_code == 422, answer.text


async def test_it_is_verified_in_parts_with_the_daemon_at_work(
    busy: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "verify_part", _small_parts)
    checked, cursor = 0, None
    while True:
        query = "" if cursor is None else f"?cursor={cursor}"
        part = (await busy.ask.get(f"/audit/verification{query}")).json()
        checked += part["checked"]
        assert part["fault"] is None
        cursor = part["next_cursor"]
        if cursor is None:
            break
        await busy.daemon.store.commit(Write(records=[record("thing.done")] * 5))
        if checked > 30:
            monkeypatch.undo()
    assert checked == part["number"] > 30


async def _small_parts(
    store: Store, anchors: list[Anchor], cursor: str | None
) -> AuditVerification:
    return await verification.verify_part(store, anchors, cursor, most=4)


async def test_a_changed_record_is_named_and_the_others_are_counted(busy: Served) -> None:
    store = busy.daemon.store
    await store.commit(
        Write(
            [
                Statement("DROP TRIGGER audit_keeps_what_it_has"),
                Statement("UPDATE audit SET actor = 'bert' WHERE number = 3"),
            ]
        )
    )
    found = (await busy.ask.get("/audit/verification")).json()
    assert found["fault"]["number"] == 3
    assert found["fault"]["kind"] == "changed"
    assert (found["checked"], found["number"], found["next_cursor"]) == (2, 2, None)


async def test_only_admins_may_look(busy: Served) -> None:
    audit = busy.daemon.audit
    for role in ("member", "viewer"):
        who = Principal(user_id="u", name="u", role=role)
        with pytest.raises(Forbidden):
            await audit.page(who, audit_log.Wanted(), None, 10)
        with pytest.raises(Forbidden):
            await audit.verify(who, None)
    admin = Principal(user_id="u", name="u", role="admin")
    assert (await audit.page(admin, audit_log.Wanted(), None, 10)).items
    stranger = httpx.AsyncClient(base_url=busy.url, trust_env=False)
    async with stranger:
        for path in ("/audit", "/audit/verification"):
            assert (await stranger.get(path)).status_code == 401


async def test_many_who_verify_at_once_are_all_answered(busy: Served) -> None:
    asking = [busy.ask.get("/audit/verification") for _ in range(20)]
    answers = await soon(asyncio.gather(*asking))
    assert {answer.json()["number"] for answer in answers} == {6}


async def test_a_stranger_cannot_make_a_record_long_or_impossible_to_store(busy: Served) -> None:
    long = "x\0" * 100_000
    made = record("signin.refused", actor=STRANGER, subject=long, name=long, list=[long] * 9)
    await busy.daemon.store.commit(Write(records=[made]))
    [newest] = (await busy.ask.get("/audit?limit=1")).json()["items"]
    assert len(newest["subject"]) <= 501
    assert "\0" not in newest["subject"]
    assert len(str(newest["detail"])) < 3000
    assert (await busy.ask.get("/audit/verification")).json()["fault"] is None

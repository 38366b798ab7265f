"""Whoever changes the audit log is found out, and what they did is named."""

from __future__ import annotations

import sqlite3
import sys
import tracemalloc
from pathlib import Path

import pytest

from agor.daemon.services.audit.anchors import Anchor, AnchorFile
from agor.daemon.services.audit.verification import verify_part
from agor.daemon.store import audit
from agor.daemon.store.base import Statement, Store, Write
from agor.daemon.store.chain import GENESIS, Link, chained
from agor.daemon.store.offline import looking_into
from agor.protocol.audit import AuditVerification
from tests.contract.waiting import soon
from tests.store.examples import a_record, put

RECORDS = 20

_SHIFT = "UPDATE audit SET number = -(number + {by}) WHERE number {which}"
_BACK = "UPDATE audit SET number = -number WHERE number < 0"


def forged(number: int, hash_: str = "hash") -> str:
    """Put in a copy of the record before, so that only its place in the chain is wrong."""
    return (
        "INSERT INTO audit (number, at, actor, action, result, detail, hash)"
        f" SELECT {number}, at, actor, action, result, detail, {hash_} FROM audit"
        f" WHERE number = {number - 1}"
    )


async def unlocked(store: Store, url: str) -> None:
    """Take the triggers away, as somebody who owns the database can."""
    if url.startswith("sqlite"):
        names = ("audit_keeps_what_it_has", "audit_loses_nothing", "audit_replaces_nothing")
        await put(store, *(Statement(f"DROP TRIGGER {name}") for name in names))
    else:
        await put(store, Statement("DROP TRIGGER audit_is_append_only ON audit"))


async def a_log(store: Store, count: int = RECORDS) -> None:
    records = [a_record(f"thing-{number}", session_id="s") for number in range(1, count + 1)]
    await store.commit(Write(records=records))


async def verified(store: Store, anchors: list[Anchor] | None = None) -> AuditVerification:
    return await soon(verify_part(store, anchors or [], None))


async def found(store: Store, anchors: list[Anchor] | None = None) -> tuple[int, str]:
    """What is wrong, as number and kind."""
    result = await verified(store, anchors)
    assert result.fault is not None
    assert result.number < result.fault.number
    assert result.next_cursor is None
    return result.fault.number, result.fault.kind


async def test_a_log_that_nobody_touched_is_right(store: Store):
    assert (await verified(store)).checked == 0
    await a_log(store)
    result = await verified(store)
    assert (result.checked, result.number, result.fault) == (RECORDS, RECORDS, None)
    assert result.hash == (await audit.head(store)).hash.hex()


@pytest.mark.parametrize(
    "change",
    [
        "at = at + 1",
        "actor_id = 'user-2'",
        "actor_id = NULL",
        "actor = 'nobody'",
        "actor = actor || ' '",
        "action = 'thing.undone'",
        "session_id = NULL",
        "session_id = ''",
        "subject = 'thing-6'",
        "subject = NULL",
        "result = 'refused'",
        "detail = (SELECT detail FROM audit WHERE number = 99)",
        "hash = (SELECT hash FROM audit WHERE number = 6)",
    ],
)
@pytest.mark.parametrize("number", [1, 7, RECORDS])
async def test_a_changed_column_is_found(store: Store, url: str, change: str, number: int):
    await a_log(store)
    await unlocked(store, url)
    other = a_record(detail=b"other")
    change = change.replace("(SELECT detail FROM audit WHERE number = 99)", "?")
    values = (other.detail,) if "?" in change else ()
    await put(store, Statement(f"UPDATE audit SET {change} WHERE number = {number}", values))
    assert await found(store) == (number, "changed")


@pytest.mark.parametrize(
    ("changes", "number", "kind"),
    [
        pytest.param(["DELETE FROM audit WHERE number = 1"], 1, "missing", id="the first deleted"),
        pytest.param(["DELETE FROM audit WHERE number = 7"], 7, "missing", id="one deleted"),
        pytest.param(
            ["DELETE FROM audit WHERE number BETWEEN 5 AND 9"], 5, "missing", id="some deleted"
        ),
        pytest.param(
            ["DELETE FROM audit WHERE number = 7", _SHIFT.format(by=-1, which="> 7"), _BACK],
            7, "missing", id="one deleted, the others renumbered",
        ),
        pytest.param(
            [_SHIFT.format(by=1, which=">= 7"), _BACK, forged(7)],
            7, "inserted", id="one inserted",
        ),
        pytest.param(
            [
                _SHIFT.format(by=2, which=">= 7"), _BACK, forged(7), forged(8),
            ],
            7, "inserted", id="two inserted",
        ),
        pytest.param([forged(RECORDS + 1)], RECORDS + 1, "changed", id="one added at the end"),
        pytest.param(
            [
                "UPDATE audit SET number = -8 WHERE number = 7",
                "UPDATE audit SET number = 7 WHERE number = 8", _BACK,
            ],
            7, "reordered", id="neighbours swapped",
        ),
        pytest.param(
            [
                "UPDATE audit SET number = -15 WHERE number = 4",
                "UPDATE audit SET number = 4 WHERE number = 15", _BACK,
            ],
            4, "reordered", id="two swapped",
        ),
        pytest.param(
            ["UPDATE audit SET number = 900 WHERE number = 7"], 7, "missing", id="one moved away"
        ),
    ],
)  # fmt: skip
async def test_what_was_done_to_the_rows_is_named(
    store: Store, url: str, changes: list[str], number: int, kind: str
):
    await a_log(store)
    await unlocked(store, url)
    for change in changes:
        await put(store, Statement(change))
    assert await found(store) == (number, kind)


async def test_a_record_that_was_put_in_with_a_right_hash_shows_at_the_next(store: Store, url: str):
    await a_log(store)
    await unlocked(store, url)
    before = await audit.hash_at(store, 6)
    assert before is not None
    [row] = chained(Link(6, before), [a_record("forged")])
    shift = [Statement(_SHIFT.format(by=1, which=">= 7")), Statement(_BACK)]
    await put(store, *shift, audit.insert(row))
    assert await found(store) == (8, "inserted")


async def test_an_end_that_was_cut_off_shows_by_the_anchor(store: Store, url: str):
    await a_log(store)
    head = await audit.head(store)
    anchors = [Anchor(*head, time="2026-11-16T05:09:00.000Z")]
    await unlocked(store, url)
    await put(store, Statement("DELETE FROM audit WHERE number > 12"))
    # The chain alone does not know.
    assert (await verified(store)).fault is None
    assert await found(store, anchors) == (13, "missing")
    result = await verified(store, anchors)
    assert result.fault is not None
    assert "12" in result.fault.what
    assert anchors[0].time in result.fault.what


@pytest.mark.parametrize("anchored", [7, 12, RECORDS])
async def test_a_chain_that_was_computed_anew_shows_by_the_anchor(
    store: Store, url: str, anchored: int
):
    await a_log(store)
    digest = await audit.hash_at(store, anchored)
    assert digest is not None
    anchors = [Anchor(anchored, digest, "2026-11-16T05:09:00.000Z")]
    rows = await audit.behind(store, 0, RECORDS)
    records = [a_record(row.subject, session_id="s", at=row.at) for row in rows]
    records[6] = a_record("forged")
    await unlocked(store, url)
    await put(store, Statement("DELETE FROM audit"), *map(audit.insert, chained(GENESIS, records)))
    assert (await verified(store)).fault is None
    assert await found(store, anchors) == (anchored, "anchor")


async def test_anchors_that_fit_are_counted(store: Store):
    await a_log(store)
    anchors = []
    for number in (3, 9, RECORDS):
        digest = await audit.hash_at(store, number)
        assert digest is not None
        anchors.append(Anchor(number, digest, "2026-11-16T05:09:00.000Z"))
    assert (await verified(store, anchors)).anchors == 3


async def test_a_log_is_verified_in_parts_as_it_is_at_once(store: Store, url: str):
    await a_log(store, 100)
    await unlocked(store, url)
    await put(store, Statement("UPDATE audit SET actor = 'x' WHERE number = 77"))
    cursor, checked = None, []
    while True:
        part = await verify_part(store, [], cursor, most=10)
        checked.append(part.checked)
        cursor = part.next_cursor
        if cursor is None:
            break
    assert checked == [10] * 7 + [6]
    assert part.fault == (await verified(store)).fault


async def test_a_row_that_cannot_even_be_read_is_named(tmp_path: Path):
    """SQLite takes any bytes for a text; Python does not."""
    from agor.daemon.store import connect

    url = f"sqlite:///{tmp_path}/agor.db"
    store = connect(url)
    await store.open()
    await a_log(store)
    await unlocked(store, url)
    await put(store, Statement("UPDATE audit SET actor = CAST(x'ff' AS TEXT) WHERE number = 7"))
    assert await found(store) == (7, "changed")
    await put(store, Statement("UPDATE audit SET actor = 5.5, detail = 'text' WHERE number = 7"))
    assert await found(store) == (7, "changed")
    await store.close()


async def test_a_database_that_nobody_serves_is_looked_into_without_changing_it(
    store: Store, url: str
):
    await a_log(store)
    await store.close()
    async with looking_into(url) as database:
        result = await verify_part(database, [], None)
        assert (result.checked, result.fault) == (RECORDS, None)
        with pytest.raises(Exception, match=r"read.?only"):
            await database.read("DROP TABLE users")


async def test_a_hundred_thousand_records_are_verified_in_little_memory(tmp_path: Path):
    from agor.daemon.store import connect

    url = f"sqlite:///{tmp_path}/agor.db"
    store = connect(url)
    await store.open()
    for start in range(0, 100_000, 5_000):
        records = [a_record(f"thing-{start + number}") for number in range(5_000)]
        await store.commit(Write(records=records))
    await store.close()
    async with looking_into(url) as database:
        tracemalloc.start()
        result = await verify_part(database, [], None, most=sys.maxsize)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert (result.checked, result.fault) == (100_000, None)
    assert peak < 5_000_000


async def test_what_a_killed_process_left_in_sqlites_log_is_read_too(tmp_path: Path):
    from tests.store.test_audit_killed import acknowledged

    url = f"sqlite:///{tmp_path}/agor.db"
    acknowledged(url, 30)
    assert (tmp_path / "agor.db-wal").stat().st_size > 0
    before = (tmp_path / "agor.db").read_bytes()
    async with looking_into(url) as database:
        result = await verify_part(database, [], None)
    assert result.checked > 30
    assert result.fault is None
    assert (tmp_path / "agor.db").read_bytes() == before
    assert sqlite3.sqlite_version_info >= (3, 35)


def test_the_anchors_of_a_home_that_has_none_are_none(tmp_path: Path):
    assert AnchorFile(tmp_path / "audit.anchors").read() == []

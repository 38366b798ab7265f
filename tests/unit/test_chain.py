"""The chain of the audit log, on paper."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.examples import a_record

from agor.daemon.store.chain import GENESIS, Link, chained, hash_of, spelled
from agor.daemon.store.rows import AuditRecord

TEXTS = ("actor_id", "actor", "action", "session_id", "subject", "result")

numbers = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]))
records = st.builds(
    AuditRecord,
    at=numbers,
    actor_id=st.none() | texts,
    actor=texts,
    action=texts,
    session_id=st.none() | texts,
    subject=st.none() | texts,
    result=texts,
    detail=st.binary(),
)


def read_back(data: bytes) -> tuple[int, AuditRecord]:
    """Read what `spelled` has written: what can be read back was not spelled like another."""
    number, at = struct.unpack_from(">qq", data)
    place = 16
    members: dict[str, Any] = {"at": at}
    for name in (*TEXTS, "detail"):
        present, place = data[place], place + 1
        value = None
        if present:
            (length,) = struct.unpack_from(">Q", data, place)
            place += 8
            value, place = data[place : place + length], place + length
            assert len(value) == length
        members[name] = value.decode() if value is not None and name != "detail" else value
    assert place == len(data)
    return number, AuditRecord(**members)


@given(numbers, records)
def test_no_two_records_are_spelled_alike(number: int, record: AuditRecord):
    assert read_back(spelled(number, record)) == (number, record)


def test_what_moves_from_one_member_to_the_next_is_another_record():
    ones = [
        a_record(actor="ab", action="c"),
        a_record(actor="a", action="bc"),
        a_record(actor="", action="abc"),
        a_record(subject=None, result="ok"),
        a_record(subject="", result="ok"),
        a_record(subject="ok", result=""),
    ]
    assert len({hash_of(GENESIS.hash, 1, one) for one in ones}) == len(ones)


def test_a_hash_depends_on_the_place_and_on_all_before():
    one, two = a_record("1"), a_record("2")
    assert hash_of(GENESIS.hash, 1, one) != hash_of(GENESIS.hash, 2, one)
    [*_, straight] = chained(GENESIS, [one, two])
    [*_, swapped] = chained(GENESIS, [two, one])
    assert straight.number == swapped.number == 2
    assert straight.hash != swapped.hash


def test_chaining_goes_on_where_it_ended():
    together = chained(GENESIS, [a_record(str(number)) for number in range(5)])
    first = chained(GENESIS, [a_record(str(number)) for number in range(2)])
    link = Link(first[-1].number, first[-1].hash)
    assert first + chained(link, [a_record(str(number)) for number in range(2, 5)]) == together


def test_old_logs_stay_valid():
    """These were computed when version 1 was made. Who changes them makes every log wrong."""
    assert (
        0,
        bytes.fromhex("d9bd328ae1b4b4293848e90aca9a396e871d5f20c2ecd3bd10c6e57cbf353434"),
    ) == GENESIS
    assert (
        chained(GENESIS, [a_record()])[0].hash.hex()
        == "d35517e07de362a892eecdca42be2ee370bbb91a46aae9aec372a44dfd21cc7f"
    )


@pytest.mark.parametrize(
    "members",
    [{"at": 2**63}, {"actor": "\ud800"}, {"subject": b"bytes"}, {"subject": 7}, {"detail": "text"}],
    ids=str,
)
def test_what_has_no_spelling_is_refused(members: dict[str, Any]):
    with pytest.raises((TypeError, ValueError)):
        hash_of(GENESIS.hash, 1, a_record(**members))

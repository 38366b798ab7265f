"""Ids: UUIDs of version 7, never the same twice."""

import uuid

import pytest

from agor.daemon.services import stamps
from agor.daemon.services.stamps import new_id

#: More than are drawn at once.
MANY = 2000


def test_an_id_is_a_uuid_of_version_7_in_its_usual_spelling() -> None:
    for made in (new_id() for _ in range(MANY)):
        read = uuid.UUID(made)
        assert (read.version, read.variant, str(read)) == (7, uuid.RFC_4122, made)


def test_an_id_begins_with_the_time_of_its_making(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stamps, "now", lambda: 0x0123456789AB)
    assert new_id().startswith("01234567-89ab-7")


def test_ids_of_one_moment_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stamps, "now", lambda: 0)
    assert len({new_id() for _ in range(MANY)}) == MANY
    # Every digit is drawn but those of the time, the version and, by half, the variant.
    for place in (*range(15, 18), *range(19, 23), *range(24, 36)):
        assert len({new_id()[place] for _ in range(MANY)}) == (4 if place == 19 else 16)

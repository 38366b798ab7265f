"""The master key as text: read back as it was written, and never repeated in a message."""

from __future__ import annotations

import base64
import traceback

import pytest

from agor.daemon.services.credentials.master_key import MasterKey, parse
from agor.errors import MasterKeyUnusable


def spelled(number: int) -> str:
    return base64.b64encode(bytes([number]) * 32).decode()


def test_what_is_written_is_read_back() -> None:
    key = MasterKey.fresh().with_next().with_next()
    again = parse(key.spell(), "the file")
    assert again.versions == key.versions == [3, 2, 1]
    assert [again.bytes_of(each) for each in (1, 2, 3)] == [key.bytes_of(n) for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        (spelled(1), [1]),
        (f"\n  {spelled(1)}\n", [1]),
        (f"7:{spelled(7)}", [7]),
        (f"7:{spelled(7)},2:{spelled(2)}", [7, 2]),
        (f"# a word\n7:{spelled(7)}\n\n# another\n2:{spelled(2)}\n", [7, 2]),
        (spelled(251).replace("+", "-").replace("/", "_").rstrip("="), [1]),
    ],
)
def test_it_is_taken_in_these_forms(text: str, versions: list[int]) -> None:
    assert parse(text, "it").versions == versions


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a word",
        "SECRETSECRET",
        f"{spelled(1)}SECRET",
        f"1:{spelled(1)} 2:{spelled(2)}",
        f"2:{spelled(2)} 2:{spelled(1)}",
        f"{spelled(1)} {spelled(2)}",
        f"0:{spelled(1)}",
        f"-1:{spelled(1)}",
        f"1:{base64.b64encode(b'short').decode()}",
        f"1:{'A' * 43}!",
        "1:" + "é" * 43,
    ],
)
def test_what_is_none_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(MasterKeyUnusable) as caught:
        parse(text, "the file")
    said = "".join(traceback.format_exception(caught.value)) + str(caught.value.hint)
    assert "SECRET" not in said
    assert spelled(1) not in said
    assert spelled(2) not in said


def test_a_new_version_is_higher_than_all_that_ever_were() -> None:
    key = MasterKey.fresh()
    assert key.with_next().versions == [2, 1]
    assert key.with_next(after=9).versions == [10, 1]
    assert key.with_next().bytes_of(2) != key.with_next().bytes_of(2)


def test_only_old_versions_are_let_go() -> None:
    key = MasterKey.fresh().with_next().with_next()
    assert key.only([]).versions == [3]
    assert key.only([1]).versions == [3, 1]


def test_it_does_not_show_itself() -> None:
    key = MasterKey.fresh()
    shown = f"{key!r} {key} {[key]}"
    assert "version" in shown
    assert base64.b64encode(key.bytes_of(1)).decode() not in shown
    assert repr(key.bytes_of(1)) not in shown

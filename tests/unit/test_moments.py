"""Times, as people say them."""

from __future__ import annotations

import time

import pytest
import typer

from agor.cli.moments import moment

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("said", "ago"),
    [
        ("90s", 90_000), ("30m", HOUR // 2), ("30 min", HOUR // 2), ("2h", 2 * HOUR),
        ("2H ago", 2 * HOUR), ("7d", 168 * HOUR), ("1w", 168 * HOUR), ("now", 0), ("0s", 0),
    ],
)  # fmt: skip
def test_how_long_ago(said: str, ago: int):
    before = time.time_ns() // 1_000_000
    found = moment(said)
    after = time.time_ns() // 1_000_000
    assert found is not None
    assert before - ago <= found <= after - ago


def test_when(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert moment("2026-01-01T00:00Z") == moment("2026-01-01T01:00") == 1767225600000
        assert moment("2026-01-01") == 1767225600000 - HOUR
    finally:
        monkeypatch.undo()
        time.tzset()
    assert moment(None) is None


@pytest.mark.parametrize("said", ["", "soon", "2y", "-3h", "2026-13-01", "h", "99999999999d", "0"])
def test_what_is_no_time_is_refused_with_examples(said: str):
    with pytest.raises(typer.BadParameter, match="7d"):
        moment(said)

"""The daemon's log in the background: its end, what is added, how it is put aside."""

from __future__ import annotations

import stat
import time
from pathlib import Path

import pytest

from agor.cli import log_file
from agor.cli.log_file import follow, last_lines, open_log


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "daemon.log"


@pytest.fixture
def no_waiting(monkeypatch):
    """Look again at once."""
    monkeypatch.setattr(log_file, "_INTERVAL", 0)


@pytest.mark.parametrize(
    ("text", "count", "expected"),
    [
        ("a\nb\nc\n", 2, "b\nc\n"),
        ("a\nb\nc", 2, "b\nc"),
        ("a\nb\n", 9, "a\nb\n"),
        ("a\nb\n", 0, ""),
        ("", 5, ""),
        ("x" * 200_000 + "\ny\n", 2, "x" * 200_000 + "\ny\n"),
        ("line\n" * 100_000 + "end\n", 2, "line\nend\n"),
        ("ä" * 40_000 + "\n", 1, "ä" * 40_000 + "\n"),
    ],
)
def test_the_last_lines_are_found(path, text, count, expected):
    path.write_text(text, encoding="utf-8")
    assert last_lines(path, count) == (expected, len(text.encode()))


def test_only_what_was_written_since_is_shown(path):
    path.write_bytes(b"old\nnew\nnewer\n")
    assert last_lines(path, 20, since=4) == ("new\nnewer\n", 14)


def test_what_is_no_text_is_shown_as_well_as_it_can_be(path):
    path.write_bytes(b"\xff\n")
    assert last_lines(path, 1) == ("�\n", 2)


def test_a_huge_log_is_not_read_whole(path, monkeypatch):
    monkeypatch.setattr(log_file, "_FARTHEST", 1000)
    path.write_bytes(b"x" * 5000)
    text, end = last_lines(path, 1)
    assert (len(text), end) == (1000, 5000)


@pytest.mark.usefixtures("no_waiting")
def test_what_is_added_is_followed_also_when_the_log_is_put_aside_or_emptied(path):
    path.write_text("before\n")
    added = follow(path, path.stat().st_size)
    with path.open("a") as log:
        log.write("first\n")
    assert next(added) == "first\n"
    with path.open("ab") as log:
        log.write("ä".encode()[:1])
    next(added)
    with path.open("ab") as log:
        log.write("ä".encode()[1:])
    assert next(added) == "ä"
    path.rename(path.with_suffix(".old"))
    path.write_text("a new one\n")
    assert next(added) == "a new one\n"
    path.write_text("emptied\n")
    assert next(added) == "emptied\n"


def test_a_log_that_is_not_there_yet_is_waited_for(path, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: path.write_text("at last\n"))
    assert next(follow(path, 0)) == "at last\n"


def test_a_large_log_is_put_aside_once_and_a_small_one_is_added_to(path, monkeypatch):
    monkeypatch.setattr(log_file, "ROTATE_AT", 5)
    for text in (b"1111", b"11", b"2", b"22222", b"3"):
        with open_log(path) as log:
            log.write(text)
    assert path.read_bytes() == b"3"
    assert path.with_name("daemon.log.1").read_bytes() == b"222222"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(list(path.parent.iterdir())) == 2

"""The file of anchors: what is in it outlives crashes, and it stays small."""

from __future__ import annotations

import stat
from itertools import pairwise
from pathlib import Path

import pytest

from agor.daemon.services.audit.anchors import MOST, Anchor, AnchorFile, to_spare
from agor.daemon.store.chain import Link
from agor.errors import BadInput

TIME = "2026-11-16T05:09:00.000Z"


@pytest.fixture
def file(tmp_path: Path) -> AnchorFile:
    return AnchorFile(tmp_path / "audit.anchors")


def link(number: int) -> Link:
    return Link(number, number.to_bytes(32))


def links(file: AnchorFile) -> list[Link]:
    return [Link(anchor.number, anchor.hash) for anchor in file.read()]


def test_what_is_appended_is_read_again_and_is_nobody_elses(file: AnchorFile):
    for number in (1, 5, 900):
        file.append(link(number))
    assert links(file) == [link(1), link(5), link(900)]
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


@pytest.mark.parametrize("left", range(1, 90, 8))
def test_half_a_line_that_a_crash_left_is_none_and_is_not_in_the_way(file: AnchorFile, left: int):
    file.append(link(1))
    whole = file.path.read_bytes()
    torn = Anchor(*link(2), time=TIME).line[:left]
    file.path.write_bytes(whole + torn)
    assert links(file) == [link(1)]
    file.append(link(3))
    assert links(file) == [link(1), link(3)]


@pytest.mark.parametrize("line", [b"", b"1 2 3", b"1 " + b"g" * 64 + b" 2026-11-16Z", b"\xff"])
def test_a_line_that_is_no_anchor_is_named(file: AnchorFile, line: bytes):
    file.append(link(1))
    file.path.write_bytes(file.path.read_bytes() + line + b"\n")
    file.append(link(2))
    with pytest.raises(BadInput, match="line 2") as refused:
        file.read()
    assert refused.value.hint


def test_too_many_are_thinned_out_with_no_hole_but_of_one(file: AnchorFile):
    anchors = [Anchor(*link(number), time=TIME) for number in range(1, MOST + 2)]
    assert to_spare(anchors[:MOST]) == []
    spare = to_spare(anchors)
    kept = [anchor for anchor in anchors if anchor not in spare]
    assert len(kept) < MOST - 1000
    assert kept[0] == anchors[0]
    assert kept[-1000:] == anchors[-1000:]
    assert max(b.number - a.number for a, b in pairwise(kept)) == 2
    file.write(kept)
    assert file.read() == kept
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


def test_a_link_in_its_place_is_not_followed(file: AnchorFile, tmp_path: Path):
    (tmp_path / "elsewhere").write_text("precious")
    file.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput):
        file.append(link(1))
    assert (tmp_path / "elsewhere").read_text() == "precious"

"""What git says, read: whole or cut off anywhere, with odd bytes in it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agor.daemon.git.differences import read_files
from agor.daemon.git.state import read_status

ZEROS = b"0" * 40
STATUS = b"\0".join(
    (
        b"# branch.oid " + b"1" * 40,
        b"# branch.head agor/x",
        b"1 .M N... 100644 100644 100644 %b %b a b\nc" % (ZEROS, ZEROS),
        b"1 A. SC.. 000000 160000 160000 %b %b sub" % (ZEROS, ZEROS),
        b"u UU N... 100644 100644 100644 100644 %b %b %b in conflict" % (ZEROS, ZEROS, ZEROS),
        b"? \xff new/",
        b"! node_modules/",
        b"",
    )
)


def test_a_status_is_counted_and_named() -> None:
    found = read_status(STATUS, cut=False)
    assert (found.changed, found.untracked, found.ignored) == (3, 1, 1)
    assert found.named == [
        (".M", "a b\nc"), ("A.", "sub"), ("UU", "in conflict"), ("?", "\\xff new/"),
    ]  # fmt: skip
    assert found.submodules == ["sub"]
    assert (found.head, found.branch) == ("1" * 40, "agor/x")
    assert not found.cut


@given(st.integers(min_value=0, max_value=len(STATUS)))
def test_a_status_that_was_cut_anywhere_has_no_more_than_the_whole_one(place: int) -> None:
    found = read_status(STATUS[:place], cut=True)
    whole = read_status(STATUS, cut=False)
    assert found.cut
    assert found.named == whole.named[: len(found.named)]


def test_no_branch_and_no_commit_are_none() -> None:
    found = read_status(b"# branch.oid (initial)\0# branch.head (detached)\0", cut=False)
    assert (found.head, found.branch) == (None, None)


FILES = b"\0".join(
    (
        b":100644 100644 %b %b M" % (ZEROS, ZEROS), b"changed",
        b":000000 100644 %b %b A" % (ZEROS, ZEROS), b"odd \xff\n",
        b":100644 100644 %b %b R087" % (ZEROS, ZEROS), b"old", b"new",
        b":100644 000000 %b %b D" % (ZEROS, ZEROS), b"image",
        b"1\t2\tchanged", b"3\t0\todd \xff\n", b"4\t5\t", b"old", b"new", b"-\t-\timage", b"",
    )
)  # fmt: skip


def test_files_are_joined_with_their_counts() -> None:
    found = [(f.status, f.path, f.old_path, f.additions, f.deletions) for f in read_files(FILES)]
    assert found == [
        ("M", "changed", None, 1, 2),
        ("A", "odd \\xff\n", None, 3, 0),
        ("R", "new", "old", 4, 5),
        ("D", "image", None, None, None),
    ]


@given(st.integers(min_value=0, max_value=len(FILES)))
def test_a_list_of_files_that_was_cut_anywhere_is_read_as_far_as_it_goes(place: int) -> None:
    assert len(read_files(FILES[:place])) <= 4

"""What a worktree's work comes to: its files against the commit that it began at.

Committed, uncommitted and new files are all in it. New ones are told to git in a copy of the index,
so that looking changes nothing that an agent could notice.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from agor.daemon.git.command import Git
from agor.daemon.git.names import shown
from agor.daemon.git.spare_index import spare_index

_LOOK = 60.0
_MOST_LISTED = 4 * 1024 * 1024
_MOST_FILES = 3000
#: Neither programs nor a person's settings have a say in what a difference looks like.
_PLAIN = (
    "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative", "--find-renames",
    "--submodule=short", "--ignore-submodules=none", "--src-prefix=a/", "--dst-prefix=b/",
    "--diff-algorithm=default", "--unified=3", "--inter-hunk-context=0",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FileDifference:
    """One file. Binary ones have no counts."""

    path: str
    old_path: str | None
    #: A letter of git's: A, M, D, R, T, U.
    status: str
    additions: int | None
    deletions: int | None


@dataclass(frozen=True, slots=True)
class Difference:
    """All files that differ, as far as they were listed, and the patch, as far as it has room."""

    head: str
    files: list[FileDifference]
    files_cut: bool
    patch: bytes
    patch_cut: bool


async def difference(git: Git, base_commit: str, most_bytes: int) -> Difference:
    """Compare a worktree with a commit."""
    head = await git.text("rev-parse", "--verify", "HEAD")
    async with spare_index(git, _LOOK) as using:
        # One that cannot be added, as a repository without a commit, must not hide the others.
        await git(
            "add", "--intent-to-add", "--sparse", "--ignore-errors", "--", ".",
            env=using, timeout=_LOOK, codes=(0, 1),
        )  # fmt: skip
        listed = await git(
            "diff", "--raw", "--numstat", "-z", "--no-abbrev", *_PLAIN, base_commit, "--",
            env=using, timeout=_LOOK, max_output=_MOST_LISTED, may_be_cut=True,
        )  # fmt: skip
        files = await asyncio.to_thread(read_files, listed.stdout)
        patch = await git(
            "diff", "--patch", *_PLAIN, base_commit, "--",
            env=using, timeout=_LOOK, max_output=most_bytes, may_be_cut=True,
        )  # fmt: skip
    return Difference(
        head=head,
        files=files[:_MOST_FILES],
        files_cut=listed.cut is not None or len(files) > _MOST_FILES,
        patch=patch.stdout if patch.cut is None else _whole_lines(patch.stdout),
        patch_cut=patch.cut is not None,
    )


def _whole_lines(text: bytes) -> bytes:
    return text[: text.rfind(b"\n") + 1]


def read_files(output: bytes) -> list[FileDifference]:
    """Read --raw and --numstat with -z: first all of the one, then all of the other."""
    fields = iter(output.split(b"\0")[:-1])
    raw: dict[bytes, tuple[str, bytes | None]] = {}
    counts: dict[bytes, tuple[int | None, int | None]] = {}
    for entry in fields:
        if entry.startswith(b":"):
            status = entry.rpartition(b" ")[2][:1].decode()
            first = next(fields, b"")
            moved = status in "RC"
            raw[next(fields, b"") if moved else first] = (status, first if moved else None)
        else:
            added, removed, path = (*entry.split(b"\t", 2), b"", b"")[:3]
            if not path:
                # A rename: the two paths follow.
                next(fields, b"")
                path = next(fields, b"")
            counts[path] = (_number(added), _number(removed))
    return [
        FileDifference(
            path=shown(path),
            old_path=None if old is None else shown(old),
            status=status,
            additions=counts.get(path, (None, None))[0],
            deletions=counts.get(path, (None, None))[1],
        )
        for path, (status, old) in raw.items()
    ]


def _number(text: bytes) -> int | None:
    return int(text) if text.isdigit() else None

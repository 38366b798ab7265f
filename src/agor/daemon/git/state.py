"""How a worktree stands: what is changed, how far it is from where it began, how large it is.

All of it is bounded in time and size. What was cut is told as "at least".
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from agor.daemon.git.command import Git
from agor.daemon.git.names import shown
from agor.daemon.git.repository import resolve

#: Seconds for a look at every file, and for adding up their sizes.
_LOOK, _MEASURE = 60.0, 10.0
_MOST_STATUS = 16 * 1024 * 1024
_MOST_SIZES = 8 * 1024 * 1024
#: Files that are named; the others are counted.
_MOST_NAMED = 100


@dataclass(slots=True)
class Changes:
    """What is in a worktree and in no commit."""

    changed: int = 0
    untracked: int = 0
    ignored: int = 0
    #: (code of git's, path), the first of them.
    named: list[tuple[str, str]] = field(default_factory=list)
    ignored_named: list[str] = field(default_factory=list)
    #: Submodules with something in them that is not committed, or not where it was committed.
    submodules: list[str] = field(default_factory=list)
    head: str | None = None
    #: None if no branch is checked out.
    branch: str | None = None
    #: Whether there may be more than was counted.
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Distance:
    """How far a worktree is from where it began, in commits; none where that cannot be told."""

    ahead: int | None
    behind: int | None
    unpushed: int | None


async def changes_in(git: Git) -> Changes:
    """Look at every file of a worktree."""
    ran = await git(
        "status", "--porcelain=v2", "-z", "--branch", "--untracked-files=normal",
        "--ignored=traditional", "--ignore-submodules=none", "--no-renames",
        timeout=_LOOK, max_output=_MOST_STATUS, may_be_cut=True,
    )  # fmt: skip
    # In a thread: there may be fifty thousand lines.
    return await asyncio.to_thread(read_status, ran.stdout, ran.cut is not None)


def read_status(output: bytes, cut: bool) -> Changes:
    """Read porcelain v2 with -z. The last entry of what was cut is left out."""
    found = Changes(cut=cut)
    entries = output.split(b"\0")
    for entry in entries[:-1]:
        kind, rest = entry[:1], entry[2:]
        if kind == b"#":
            _read_header(found, rest)
        elif kind == b"1":
            # XY sub mH mI mW hH hI path
            codes, sub, *_, path = rest.split(b" ", 7)
            _add(found, codes.decode(), sub, path)
        elif kind == b"u":
            # XY sub m1 m2 m3 mW h1 h2 h3 path
            codes, sub, *_, path = rest.split(b" ", 9)
            _add(found, codes.decode(), sub, path)
        elif kind == b"?":
            found.untracked += 1
            _name(found, "?", rest)
        elif kind == b"!":
            found.ignored += 1
            if len(found.ignored_named) < _MOST_NAMED:
                found.ignored_named.append(shown(rest))
    return found


def _read_header(found: Changes, header: bytes) -> None:
    name, _, value = header.decode(errors="backslashreplace").partition(" ")
    if name == "branch.oid" and value != "(initial)":
        found.head = value
    elif name == "branch.head" and value != "(detached)":
        found.branch = value


def _add(found: Changes, codes: str, sub: bytes, path: bytes) -> None:
    found.changed += 1
    _name(found, codes, path)
    if sub.startswith(b"S") and len(found.submodules) < _MOST_NAMED:
        found.submodules.append(shown(path))


def _name(found: Changes, codes: str, path: bytes) -> None:
    if len(found.named) < _MOST_NAMED:
        found.named.append((codes, shown(path)))


async def distance(git: Git, base: str, base_commit: str) -> Distance:
    """Count the commits since the base, those that the base has got meanwhile, those not pushed."""
    ahead = await _count(git, f"{base_commit}..HEAD")
    # Where it began may be a branch that is gone.
    there = await resolve(git, base)
    behind = None if there is None else await _count(git, f"HEAD..{there}")
    unpushed = await _count(git, "HEAD", f"^{base_commit}", "--not", "--remotes")
    return Distance(ahead, behind, unpushed)


async def _count(git: Git, *commits: str) -> int | None:
    ran = await git("rev-list", "--count", *commits, "--", codes=(0, 128), may_be_cut=True)
    text = ran.stdout.decode().strip()
    return int(text) if ran.exit_code == 0 and text.isdecimal() else None


async def disk_use(git: Git) -> tuple[int, bool]:
    """Add up the bytes on the disk; and tell whether that is all of them."""
    # Folder by folder, each without those below it: so what is cut is a sum of what was seen.
    ran = await git.shell(
        ["du", "--separate-dirs", "--block-size=1", "--null", "--one-file-system", "--", "."],
        timeout=_MEASURE, max_output=_MOST_SIZES,
    )  # fmt: skip
    lines = ran.stdout.split(b"\0")[:-1]
    total = sum(int(line.partition(b"\t")[0]) for line in lines)
    return total, ran.cut is None and ran.exit_code == 0

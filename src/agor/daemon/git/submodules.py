"""Repositories inside of a worktree: their work is their own, and goes with the worktree's folder.

Most are submodules. Others were committed by accident (`git add .` over a clone) and stand in no
`.gitmodules`; and of those that a branch does not have any more, git keeps what they were.
"""

from __future__ import annotations

import asyncio
import posixpath

from agor.daemon.git.command import THOROUGH, Git
from agor.daemon.git.names import shown
from agor.daemon.git.state import changes_in
from agor.errors import GitFailed

#: Repositories that are looked into, and how deep; with more, somebody has to look.
_MOST = 50
_DEEPEST = 5
_MOST_LISTED = 64 * 1024 * 1024
_GITLINK = b"160000 "
#: What is only here. The stash is a ref of its own; a pattern without [] would stand for a folder.
_OURS = ("HEAD", "--branches", "--glob=refs/stas[h]", "--not", "--remotes")

#: Finds what git keeps of the worktree in a folder, in whatever it has named it.
_FIND_BOOK = """
for file in "$1"/worktrees/*/gitdir; do
    [ "$(cat "$file")" != "$2/.git" ] || dirname "$file"
done
"""


async def has_submodules(git: Git) -> bool:
    """Tell whether git would call it a worktree with submodules."""
    return bool(await _paths(git)) or bool(await _kept(git))


async def work_in_submodules(git: Git, depth: int = 0) -> list[str]:
    """Name those repositories inside of a worktree that have something that is nowhere else."""
    paths = await _paths(git)
    busy = [
        f"{shown(path)} ({why})"
        for path in paths[:_MOST]
        if (why := await _work_in(git, path, depth)) is not None
    ]
    if (more := len(paths) - _MOST) > 0:
        busy.append(f"{more} more that were not looked into")
    # One that is checked out was named already.
    kept = await _work_kept(git, await _kept(git))
    return busy + [each for each in kept if each not in busy]


async def work_of_gone(git: Git, path: str) -> list[str]:
    """Name those of a worktree whose folder is gone: git has their commits until it forgets it."""
    common = await git.text("rev-parse", "--path-format=absolute", "--git-common-dir")
    found = await git.shell(["sh", "-c", _FIND_BOOK, "sh", common, path])
    book = shown(found.stdout).rstrip("\n")
    return await _work_kept(git, await _kept_in(git, f"{book}/modules")) if book else []


async def _paths(git: Git) -> list[bytes]:
    """List where there may be one, by the index and by what it says of submodules."""
    staged = await git(
        "ls-files", "--stage", "-z", max_output=_MOST_LISTED, timeout=THOROUGH
    )  # fmt: skip
    linked = await asyncio.to_thread(_links, staged.stdout)
    listed = await git(
        "config", "--file", ".gitmodules", "--null", "--get-regexp", r"^submodule\..*\.path$",
        codes=(0, 1, 128),
    )  # fmt: skip
    told = [entry.partition(b"\n")[2] for entry in listed.stdout.split(b"\0") if b"\n" in entry]
    return list(dict.fromkeys(linked + told))


def _links(staged: bytes) -> list[bytes]:
    entries = staged.split(b"\0")
    return [each.partition(b"\t")[2] for each in entries if each.startswith(_GITLINK)]


async def _kept(git: Git) -> dict[str, str]:
    """Find the repositories of submodules that git keeps beside the worktree's index, by name."""
    modules = await git.text("rev-parse", "--path-format=absolute", "--git-path", "modules")
    return await _kept_in(git, modules)


async def _kept_in(git: Git, modules: str) -> dict[str, str]:
    script = 'test ! -d "$1" || find "$1" -type d -name objects -prune -print0'
    ran = await git.shell(["sh", "-c", script, "sh", modules])
    found = [posixpath.dirname(each) for each in shown(ran.stdout).split("\0") if each]
    return {posixpath.relpath(folder, modules): folder for folder in found}


async def _work_kept(git: Git, kept: dict[str, str]) -> list[str]:
    busy = [
        f"{name} ({why})"
        for name, folder in list(kept.items())[:_MOST]
        # The folder that it says it is checked out in may be gone: another one will do.
        if (why := await _not_pushed(git, f"--git-dir={folder}", "--work-tree=.")) is not None
    ]
    if (more := len(kept) - _MOST) > 0:
        busy.append(f"{more} more that were not looked into")
    return busy


async def _work_in(git: Git, raw: bytes, depth: int) -> str | None:
    try:
        path = raw.decode()
    except UnicodeDecodeError:
        return "it cannot be looked into: its name is not UTF-8"
    # Only one that was initialised has a repository; the path is the repository's own choice.
    if path.startswith(("/", "-")) or ".." in path.split("/"):
        return None
    if (await git.shell(["test", "-e", f"{path}/.git"])).exit_code != 0:
        return None
    inside = git.at(f"{git.cwd}/{path}")
    try:
        changes = await changes_in(inside)
        if changes.changed or changes.untracked or changes.cut:
            return "uncommitted changes"
        if (why := await _not_pushed(inside)) is not None or depth == _DEEPEST:
            return why
        return "; ".join(await work_in_submodules(inside, depth + 1)) or None
    except GitFailed:
        return "it cannot be looked into"


async def _not_pushed(git: Git, *where: str) -> str | None:
    try:
        count = await git.text(*where, "rev-list", "--count", *_OURS)
    except GitFailed:
        return "it cannot be looked into"
    return None if count == "0" else f"{count} commits that were not pushed"

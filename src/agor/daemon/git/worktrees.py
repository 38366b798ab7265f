"""Worktrees: made and removed, on a branch of their own. Nothing here takes work with it."""

from __future__ import annotations

import posixpath

from agor.daemon.git.command import THOROUGH, Git, reason
from agor.daemon.git.repository import branch_tip, is_kept_by_others, worktrees_of
from agor.errors import Conflict, GitFailed
from agor.protocol.validation import quoted

_MAKE_PARENT = 'umask 077 && mkdir -p -- "$1" && cd -- "$1" && pwd -P'
_MAKE_FOLDER = 'umask 077 && mkdir -- "$1"'


async def make_parent(git: Git, folder: str) -> str:
    """Make the folder that worktrees go to, for its owner alone; gives its real path."""
    made = await git.at("/").shell(["sh", "-c", _MAKE_PARENT, "sh", folder])
    if made.exit_code != 0 or made.cut is not None:
        raise GitFailed(
            f"{git.identity.name} cannot make {quoted(folder)}: {reason(made)}",
            hint=f"Worktrees and clones of {git.identity.name} go there. Does the home exist, and "
            "is there room on its disk?",
        )
    return made.stdout.decode(errors="replace").rstrip("\n")


async def refuse_taken_branch(git: Git, branch: str) -> None:
    """Raise `Conflict` if there is such a branch, or one that it cannot stand beside."""
    if await branch_tip(git, branch) is None:
        parents = [branch.rsplit("/", n)[0] for n in range(1, branch.count("/") + 1)]
        for parent in parents:
            if await branch_tip(git, parent) is not None:
                raise Conflict(
                    f"there is a branch {quoted(parent)}, and git can then have none below it",
                    hint="Choose a branch with another beginning.",
                )
        return
    where = next((each.path for each in await worktrees_of(git) if each.branch == branch), None)
    out = f", and it is checked out at {quoted(where)}" if where else ""
    raise Conflict(
        f"there is a branch {quoted(branch)} already{out}",
        hint="Choose another name; to go on from its work, give it as the base.",
    )


async def add(git: Git, path: str, branch: str, commit: str) -> None:
    """Make a worktree on a new branch, in a new folder that only its owner can enter."""
    made = await git.at(posixpath.dirname(path)).shell(["sh", "-c", _MAKE_FOLDER, "sh", path])
    if made.exit_code != 0 or made.cut is not None:
        why = reason(made)
        if "File exists" in why:
            raise Conflict(
                f"there is a folder {quoted(path)} already, and it is none that we know of",
                hint="Choose another name, or look at it with: agor worktree prune --dry-run",
            )
        raise GitFailed(f"cannot make {quoted(path)}: {why}", hint="Is there room on its disk?")
    await git(
        "worktree", "add", "--quiet", "--no-track", "-b", branch, "--", path, commit,
        timeout=THOROUGH,
    )  # fmt: skip


async def undo_add(git: Git, path: str, branch: str, commit: str) -> bool:
    """Take back what is there of a worktree that nobody was told of; False if it is in use.

    Only what is surely ours goes: a folder that was there before is on no branch of ours.
    """
    mine = next((each for each in await worktrees_of(git) if each.path == path), None)
    if mine is None:
        await git.at("/").shell(["rmdir", "--", path])
    elif mine.branch == branch:
        if mine.head != commit:
            return False
        await git("worktree", "remove", "--force", "--force", "--", path, timeout=THOROUGH)
    await drop_branch(git, branch, commit)
    return True


async def remove(git: Git, path: str, *, force: bool) -> None:
    """Remove a worktree, also one whose folder is gone. Without force git refuses a dirty one."""
    forced = ["--force"] if force else []
    await git("worktree", "remove", *forced, "--", path, timeout=THOROUGH)


async def drop_branch(git: Git, branch: str, commit: str) -> bool:
    """Delete a branch if it is still at this commit; whatever came to it meanwhile stays."""
    ran = await git(
        "update-ref", "-d", "--end-of-options", f"refs/heads/{branch}", commit, codes=(0, 1, 128)
    )
    return ran.exit_code == 0


async def drop_branch_if_safe(git: Git, branch: str, *, dry_run: bool = False) -> str | None:
    """Delete a branch whose commits are all elsewhere as well; says why it was kept, if it was."""
    tip = await branch_tip(git, branch)
    if tip is None:
        return None
    listed = await worktrees_of(git)
    where = next((each.path for each in listed if each.branch == branch), None)
    if where is not None:
        return f"it is checked out at {where}"
    # Also if nothing was added: the branch that it began at may be gone, or be elsewhere by now.
    if await is_kept_by_others(git, tip, besides=branch) is None:
        return "it has commits that are in no other branch and were not pushed"
    if dry_run or await drop_branch(git, branch, tip):
        return None
    return "it was changed just now"

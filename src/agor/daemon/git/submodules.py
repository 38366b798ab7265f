"""Submodules: their work is in repositories of their own, which go with the worktree's folder."""

from __future__ import annotations

from agor.daemon.git.command import Git
from agor.daemon.git.names import shown
from agor.daemon.git.state import changes_in
from agor.errors import GitFailed

#: Submodules that are looked into; with more, somebody has to look.
_MOST = 50


async def work_in_submodules(git: Git) -> list[str]:
    """Name those submodules of a worktree that have something that is nowhere else."""
    listed = await git(
        "config", "--file", ".gitmodules", "--null", "--get-regexp", r"^submodule\..*\.path$",
        codes=(0, 1, 128),
    )  # fmt: skip
    paths = [
        shown(entry.partition(b"\n")[2]) for entry in listed.stdout.split(b"\0") if b"\n" in entry
    ]
    busy = [
        f"{path} ({why})"
        for path in paths[:_MOST]
        if (why := await _work_in(git, path)) is not None
    ]
    if len(paths) > _MOST:
        busy.append(f"{len(paths) - _MOST} more that were not looked into")
    return busy


async def _work_in(git: Git, path: str) -> str | None:
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
        not_pushed = await inside.text(
            "rev-list", "--count", "HEAD", "--branches", "--not", "--remotes"
        )
    except GitFailed:
        return "it cannot be looked into"
    return None if not_pushed == "0" else f"{not_pushed} commits that were not pushed"

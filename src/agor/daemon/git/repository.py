"""What a folder is to git: the repository it is in, its commits, and the worktrees that it has."""

from __future__ import annotations

from dataclasses import dataclass

from agor.daemon.git.command import Git, reason
from agor.errors import Conflict, Unprocessable
from agor.protocol.validation import quoted


@dataclass(frozen=True, slots=True)
class Listed:
    """A worktree, as git has it in its books."""

    path: str
    head: str | None
    #: Without `refs/heads/`; none if no branch is checked out.
    branch: str | None
    #: Why it is locked; empty if nobody said why, none if it is not locked.
    locked: str | None
    #: Whether git would forget it: its folder is gone.
    prunable: bool


async def top_level(git: Git) -> str:
    """Find the folder of the repository that this folder is in; raises `Unprocessable`."""
    asked = await git("rev-parse", "--is-bare-repository", "--absolute-git-dir", codes=(0, 128))
    if asked.exit_code != 0:
        why = reason(asked)
        if "not a git repository" not in why:
            # Not ours to open, or broken: git says it best.
            await git("rev-parse", "--absolute-git-dir")
        raise Unprocessable(
            f"path: {quoted(git.cwd)} is not in a git repository",
            hint="Make one of it with git init and a first commit, or clone one with a url.",
        )
    bare, git_dir = asked.stdout.decode(errors="surrogateescape").split("\n")[:2]
    if bare == "true":
        return _text(git_dir)
    top = await git("rev-parse", "--show-toplevel", codes=(0, 128))
    if top.exit_code != 0:
        raise Unprocessable(
            f"path: {quoted(git.cwd)} is inside of a repository's own files",
            hint="Name the folder that the repository is in.",
        )
    return _text(top.stdout.decode(errors="surrogateescape").rstrip("\n"))


def _text(path: str) -> str:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise Unprocessable(
            "path: the repository's folder has a name that is not UTF-8", hint="Rename it."
        ) from None
    return path


async def resolve(git: Git, revision: str) -> str | None:
    """Find the commit that somebody means, if there is one."""
    ran = await git(
        "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}",
        codes=(0, 1, 128),
    )  # fmt: skip
    return ran.stdout.decode().strip() if ran.exit_code == 0 else None


async def base_of(git: Git, revision: str | None) -> tuple[str, str]:
    """Find where a branch is to begin: the name it is known by, and the commit."""
    if revision is not None:
        commit = await resolve(git, revision)
        if commit is None:
            raise Unprocessable(
                f"base: there is no commit {quoted(revision)} in this repository",
                hint="Name a branch, a tag or a commit that is there; or fetch first.",
            )
        return revision, commit
    commit = await resolve(git, "HEAD")
    if commit is None:
        raise Conflict(
            f"the repository {quoted(git.cwd)} has no commit yet, or its HEAD leads nowhere",
            hint='Make a first one: git commit --allow-empty -m "Begin"; or name a base.',
        )
    named = await git("symbolic-ref", "--quiet", "--short", "HEAD", codes=(0, 1))
    return named.stdout.decode(errors="replace").strip() or commit, commit


async def branch_tip(git: Git, branch: str) -> str | None:
    """Find the commit that a branch is at, if there is such a branch."""
    return await resolve(git, f"refs/heads/{branch}")


async def worktrees_of(git: Git) -> list[Listed]:
    """List what git knows of; the first is the repository's own folder."""
    ran = await git("worktree", "list", "--porcelain", "-z", max_output=8 * 1024 * 1024)
    found = []
    for block in ran.stdout.decode(errors="backslashreplace").split("\0\0"):
        facts = dict(line.partition(" ")[::2] for line in block.split("\0") if line)
        if "worktree" in facts:
            found.append(
                Listed(
                    path=facts["worktree"],
                    head=facts.get("HEAD"),
                    branch=facts["branch"].removeprefix("refs/heads/")
                    if "branch" in facts
                    else None,
                    locked=facts.get("locked"),
                    prunable="prunable" in facts,
                )
            )
    return found


async def is_kept_by_others(git: Git, commit: str, besides: str | None) -> str | None:
    """Name a branch or tag, other than one, whose history has a commit; none if there is none."""
    ran = await git(
        "for-each-ref", "--format=%(refname)", "--count=2", f"--contains={commit}",
        "refs/heads", "refs/remotes", "refs/tags",
        timeout=60.0,
    )  # fmt: skip
    for name in ran.stdout.decode(errors="backslashreplace").splitlines():
        if name != f"refs/heads/{besides}":
            return name
    return None

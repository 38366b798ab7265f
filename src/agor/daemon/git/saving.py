"""Work that is about to be thrown away, kept all the same: as a commit that a hidden ref holds.

The commit has the worktree's files as they are, new ones too, on top of its HEAD; what was staged
is its second parent. Ignored files are not in it.
"""

from __future__ import annotations

from agor.daemon.git.command import THOROUGH, Git
from agor.daemon.git.names import shown
from agor.daemon.git.repository import resolve
from agor.daemon.git.spare_index import spare_index
from agor.errors import Conflict

_PREFIX = "refs/agor/discarded/"
_WHO = {
    "GIT_AUTHOR_NAME": "agor",
    "GIT_AUTHOR_EMAIL": "agor@localhost",
    "GIT_COMMITTER_NAME": "agor",
    "GIT_COMMITTER_EMAIL": "agor@localhost",
}
#: The modes of a repository inside, in what was and in what is.
_WAS_LINK, _IS_LINK = b":160000", b"160000"


def saved_ref(worktree_id: str) -> str:
    """Name the ref that keeps what was in a worktree."""
    return f"{_PREFIX}{worktree_id}"


async def keep_commit(git: Git, worktree_id: str, commit: str) -> str:
    """Have a ref hold a commit that nothing else would hold."""
    ref, number = saved_ref(worktree_id), 1
    # A removal that a crash cut short has saved it before, when it was still whole.
    while await resolve(git, ref) not in (None, commit):
        number += 1
        ref = f"{saved_ref(worktree_id)}-{number}"
    await git("update-ref", "--create-reflog", ref, commit)
    return ref


async def save(git: Git, worktree_id: str, name: str) -> tuple[str, str]:
    """Save all that is in a worktree; gives the ref and the commit."""
    head = await git.text("rev-parse", "--verify", "HEAD")
    staged = await git("write-tree", codes=(0, 128), timeout=THOROUGH)
    async with spare_index(git) as using:
        # --sparse: also where only a part of the files is checked out.
        await git("add", "--all", "--sparse", "--", ".", env=using, timeout=THOROUGH)
        tree = (await git("write-tree", env=using, timeout=THOROUGH)).stdout.decode().strip()
    await _refuse_inner_repositories(git, head, tree)
    parents = ["-p", head]
    # Conflicts cannot be written as a tree; the files have them, with their marks.
    if staged.exit_code == 0:
        staged_tree = staged.stdout.decode().strip()
        told = await _commit(git, staged_tree, ["-p", head], f"What was staged in {name}")
        parents += ["-p", told]
    commit = await _commit(git, tree, parents, f"What was in the worktree {name}")
    return await keep_commit(git, worktree_id, commit), commit


async def _commit(git: Git, tree: str, parents: list[str], message: str) -> str:
    made = await git("commit-tree", tree, *parents, "-m", message, env=_WHO)
    return made.stdout.decode().strip()


async def _refuse_inner_repositories(git: Git, head: str, tree: str) -> None:
    """A repository inside the worktree would be saved as the name of a commit, and so be lost.

    Those that HEAD has already were looked into before, as submodules.
    """
    ran = await git(
        "diff-tree", "-r", "-z", "--no-renames", head, tree,
        max_output=64 * 1024 * 1024, timeout=THOROUGH,
    )  # fmt: skip
    fields = ran.stdout.split(b"\0")
    inner = [
        shown(path)
        for facts, path in zip(fields[::2], fields[1::2], strict=False)
        if facts.split(b" ")[1:2] == [_IS_LINK] and not facts.startswith(_WAS_LINK)
    ]
    if inner:
        raise Conflict(
            f"there are git repositories in it that cannot be saved: {', '.join(inner[:5])}",
            hint="Move them out of the worktree, then remove it.",
        )

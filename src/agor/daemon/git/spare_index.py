"""A copy of a worktree's index, to look at all of its files without changing what an agent sees.

Git can be told not to look at files (`update-index --assume-unchanged`, `--skip-worktree`): people
hide settings of their own so. In the copy it looks at them all the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
import secrets
from collections.abc import AsyncIterator

from agor.daemon.git.command import THOROUGH, Git, reason
from agor.daemon.git.names import shown
from agor.errors import GitFailed
from agor.protocol.validation import quoted

_MOST_LISTED = 64 * 1024 * 1024
#: With these git takes `skip-worktree` back from every file that is there.
_SEEING = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.sparseCheckout",
    "GIT_CONFIG_VALUE_0": "true",
    "GIT_CONFIG_KEY_1": "sparse.expectFilesOutsideOfPatterns",
    "GIT_CONFIG_VALUE_1": "false",
}


@contextlib.asynccontextmanager
async def spare_index(git: Git, timeout: float = THOROUGH) -> AsyncIterator[dict[str, str]]:
    """Copy the index; gives the environment with which git uses the copy."""
    git_dir = await git.text("rev-parse", "--absolute-git-dir")
    spare = posixpath.join(git_dir, f"agor-{secrets.token_hex(8)}")
    using = {"GIT_INDEX_FILE": spare, **_SEEING}
    try:
        await _copy(git, posixpath.join(git_dir, "index"), spare)
        # This takes `assume-unchanged` back from what is changed, and then ends with 1.
        await git(
            "update-index", "-q", "--really-refresh", env=using, codes=(0, 1), timeout=timeout,
            max_output=_MOST_LISTED,
        )  # fmt: skip
        yield using
    finally:
        await git.shell(["rm", "-f", "--", spare, f"{spare}.lock"])


async def hidden_changes(git: Git) -> list[str]:
    """Name the files that are changed and that git was told not to look at."""
    listed = await git("ls-files", "-v", "-z", max_output=_MOST_LISTED, timeout=THOROUGH)
    hidden = await asyncio.to_thread(_hidden, listed.stdout)
    if not hidden:
        return []
    async with spare_index(git) as using:
        changed = await git(
            "diff-files", "--name-only", "-z", "--ignore-submodules=all",
            env=using, max_output=_MOST_LISTED, timeout=THOROUGH,
        )  # fmt: skip
    return [shown(path) for path in changed.stdout.split(b"\0") if path in hidden]


def _hidden(listed: bytes) -> set[bytes]:
    """Read a letter and a path each: small letters are assumed unchanged, S is skipped."""
    entries = listed.split(b"\0")
    return {each[2:] for each in entries if each[:1].islower() or each[:1] == b"S"}


async def _copy(git: Git, index: str, spare: str) -> None:
    """Copy it as it is: what git knows of unchanged files there saves reading them all.

    With its time: by that git knows of which files it cannot be sure, since they changed with it.
    """
    script = 'test ! -e "$1" || cp -p -- "$1" "$2"'
    copied = await git.shell(["sh", "-c", script, "sh", index, spare], timeout=THOROUGH)
    if copied.exit_code != 0 or copied.cut is not None:
        raise GitFailed(
            f"cannot write beside the index of {quoted(git.cwd)}: {reason(copied)}",
            hint="Is there room on the disk, and may it be written to? Nothing was lost.",
        )

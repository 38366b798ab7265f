"""Clones: made beside, and put in their place whole. What was not finished is removed."""

from __future__ import annotations

import posixpath

from agor.daemon.git.addresses import Address
from agor.daemon.git.command import THOROUGH, Git, reason
from agor.errors import Conflict, GitFailed
from agor.protocol.validation import quoted

#: Seconds for a whole clone.
LONGEST = 3600.0
PARTIAL = ".partial-"

_MAKE = 'umask 077 && rm -rf -- "$1" && mkdir -- "$1"'
#: -T: never into a folder that somebody has made there meanwhile.
_PLACE = ["mv", "-n", "-T", "--"]


def partial_of(folder: str, repo_id: str) -> str:
    """Name the folder of a clone that is under way."""
    return posixpath.join(folder, f"{PARTIAL}{repo_id}")


async def clone(git: Git, address: Address, folder: str, name: str, repo_id: str) -> str:
    """Clone into a folder of its owner's; gives the path."""
    partial, place = partial_of(folder, repo_id), posixpath.join(folder, name)
    beside = git.at(folder)
    made = await beside.shell(["sh", "-c", _MAKE, "sh", partial])
    if made.exit_code != 0:
        raise GitFailed(f"cannot make {quoted(partial)}: {reason(made)}")
    try:
        await beside(
            # The server's own way even for a folder here: no links to files of somebody else's.
            "clone", "--quiet", "--no-local", "--no-recurse-submodules", "--template=",
            "--origin=origin", "--", address.url, partial,
            timeout=LONGEST, env={"GIT_ALLOW_PROTOCOL": address.protocol},
        )  # fmt: skip
        await _put_in_place(beside, partial, place)
    except BaseException:
        await remove_partial(beside, folder, repo_id)
        raise
    return place


async def remove_partial(git: Git, folder: str, repo_id: str) -> None:
    """Remove what is there of a clone that will not be finished."""
    path = partial_of(folder, repo_id)
    await git.at("/").shell(["rm", "-rf", "--one-file-system", "--", path], timeout=THOROUGH)


async def _put_in_place(git: Git, partial: str, place: str) -> None:
    moved = await git.shell([*_PLACE, partial, place])
    # With -n, mv does not say that it did nothing.
    gone = await git.shell(["test", "!", "-e", partial])
    if moved.exit_code != 0 or gone.exit_code != 0:
        raise Conflict(
            f"there is a folder {quoted(place)} already", hint="Give the clone another name."
        )

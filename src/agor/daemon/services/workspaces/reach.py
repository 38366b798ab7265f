"""Whether a session's Unix user can work in its folder; if not, what stands in the way.

It is found out with that user's own rights, before an executor starts there: what root or the
daemon may see tells nothing.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shlex
import stat
import time

from agor.environments import errands
from agor.environments.identity import UnixIdentity, way_to
from agor.errors import EnvironmentFailed, WorkspaceUnreachable
from agor.linux import shortage
from agor.protocol.validation import quoted

#: How long a folder that was found needs not be looked for again; a look costs more than the rest.
_SEEN_SECONDS = 2.0
_MOST_SEEN = 256
#: Seconds for a look: the folder may lie on a disk that does not answer.
_PATIENCE = 15.0

#: Goes down the path and tells the first thing that stops it.
_WALK = r"""
tell() { printf '%s\n%s' "$1" "$2"; exit 0; }
seen=/ rest=${1#/}
while [ -n "$rest" ]; do
    [ -x "$seen" ] || tell closed "$seen"
    part=${rest%%/*}
    case $rest in */*) rest=${rest#*/} ;; *) rest= ;; esac
    [ -n "$part" ] || continue
    seen=${seen%/}/$part
    if [ ! -e "$seen" ]; then
        [ ! -L "$seen" ] || tell link "$seen"
        tell missing "$seen"
    fi
    [ -d "$seen" ] || tell file "$seen"
done
[ -x "$seen" ] || tell closed "$seen"
[ -r "$seen" ] || tell unreadable "$seen"
tell well "$seen"
"""


#: Who, and which folder.
_Key = tuple[int, str]


class Reach:
    """Looks whether people can reach folders."""

    def __init__(self) -> None:
        #: Folders that could be reached a moment ago, by whom, and until when that counts.
        self._seen: dict[_Key, float] = {}
        #: Looks that are under way: whoever asks the same meanwhile waits for the same.
        self._looks: dict[_Key, asyncio.Task[None]] = {}

    async def check(self, identity: UnixIdentity, folder: str) -> None:
        """Raise `WorkspaceUnreachable` if this user cannot enter and read this folder."""
        key, clock = (identity.uid, folder), time.monotonic()
        if self._seen.get(key, clock) > clock:
            return
        look = self._looks.get(key)
        if look is None:
            look = self._looks[key] = asyncio.create_task(_look(identity, folder))
            look.add_done_callback(lambda done: self._looked(key, clock, done))
        await asyncio.shield(look)

    def _looked(self, key: _Key, clock: float, look: asyncio.Task[None]) -> None:
        well = not look.cancelled() and look.exception() is None
        # If the folder was removed meanwhile, what was seen of it is worth nothing.
        if self._looks.get(key) is look:
            del self._looks[key]
            if well:
                self._note(key, clock + _SEEN_SECONDS)

    def _note(self, key: _Key, until: float) -> None:
        if len(self._seen) >= _MOST_SEEN:
            self._seen.clear()
        self._seen[key] = until

    def forget(self, folder: str) -> None:
        """A folder was removed: what was seen of it, or is being seen, counts no more."""
        for held in (self._seen, self._looks):
            for key in [key for key in held if key[1] == folder]:
                del held[key]


async def _look(identity: UnixIdentity, folder: str) -> None:
    """Raise if this user cannot enter and read this folder."""
    # Our own rights can be asked for without a process; in a thread, as a disk may not answer.
    is_self = way_to(identity) == "self"
    if not is_self or not await asyncio.to_thread(_is_well, folder):
        what, where = await _walk(identity, folder)
        if what != "well":
            raise _unreachable(identity, folder, what, where)


def _is_well(folder: str) -> bool:
    try:
        is_folder = stat.S_ISDIR(os.stat(folder).st_mode)  # noqa: PTH116 - any error counts
        return is_folder and os.access(folder, os.R_OK | os.X_OK)
    except (OSError, ValueError):
        return False


async def _walk(identity: UnixIdentity, folder: str) -> tuple[str, str]:
    try:
        ran = await errands.run(
            identity, ["/bin/sh", "-c", _WALK, "sh", folder],
            cwd="/", env={}, timeout=_PATIENCE, max_output=16 * 1024,
        )  # fmt: skip
    except EnvironmentFailed as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and (exhausted := shortage(cause)) is not None:
            # Nothing is wrong with the folder: whoever can wait tries again.
            raise exhausted from error
        raise WorkspaceUnreachable(error.message, hint=error.hint) from error
    if ran.cut == "time":
        return "silent", folder
    what, _, where = ran.stdout.decode(errors="replace").partition("\n")
    if ran.exit_code == 0 and where:
        return what, where
    said = ran.stderr.decode(errors="replace").strip().splitlines()
    raise WorkspaceUnreachable(
        f"cannot look at {quoted(folder)} as {identity.name}: {said[-1] if said else 'no answer'}",
        hint=f"`agor doctor --as {identity.name}` says what is missing.",
    )


def _unreachable(
    identity: UnixIdentity, folder: str, what: str, where: str
) -> WorkspaceUnreachable:
    start, user = f"workspace: {quoted(folder)}", identity.name
    if what in ("missing", "file"):
        also = "" if where == folder.rstrip("/") else f" ({quoted(where)} is not)"
        return WorkspaceUnreachable(
            f"{start} is not a folder here{also}",
            hint=f"Make it, as {user}: mkdir -p {shlex.quote(folder)}; or correct the path.",
        )
    if what == "link":
        return WorkspaceUnreachable(
            f"{start} goes by the link {quoted(where)}, which leads nowhere that {user} can reach",
            hint="Name the folder that it leads to, to be told what is in the way.",
        )
    if what == "silent":
        return WorkspaceUnreachable(
            f"{start}: its disk does not answer", hint="Is it a network file system that is gone?"
        )
    verb = "enter" if what == "closed" else "read"
    way = "" if where == folder.rstrip("/") else ", which is on the way"
    owner, mode = _owner(where)
    return WorkspaceUnreachable(
        f"{start} cannot be reached by the Unix user {user}, as whom this session runs: {user} may "
        f"not {verb} {quoted(where)}{way}{mode}",
        hint=_advice(user, owner, folder.rstrip("/") or "/", where),
    )


def _advice(user: str, owner: str | None, folder: str, where: str) -> str:
    who = "As root" if owner in (None, "root") else f"As {owner} or root"
    closed = shlex.quote(where)
    if where == folder:
        return (
            f"{who}: setfacl -R -m u:{user}:rwX -m d:u:{user}:rwX {closed}; or make it {user}'s "
            f"own: chown -R {user} {closed}. A worktree needs neither: it lies in {user}'s home."
        )
    return (
        f"{who}: setfacl -m u:{user}:x {closed}; or let everybody on this machine pass through: "
        f"chmod o+x {closed}. A worktree needs neither: it lies in {user}'s home."
    )


def _owner(folder: str) -> tuple[str | None, str]:
    """Tell whose a folder is and how it is closed, as far as we can see it ourselves."""
    try:
        found = os.stat(folder)  # noqa: PTH116 - its errors are expected
        name = pwd.getpwuid(found.st_uid).pw_name
    except (OSError, KeyError):
        return None, ""
    return name, f" ({name}'s, {stat.filemode(found.st_mode)})"

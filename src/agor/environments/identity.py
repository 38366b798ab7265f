"""Unix users: who a command runs as, how we become that user, and what environment it gets."""

from __future__ import annotations

import functools
import os
import pwd
from dataclasses import dataclass
from typing import Literal

from agor.errors import UnknownUser

Way = Literal["self", "setuid", "sudo"]

#: Variables of ours that are about the machine or the terminal, and never secret.
_KEPT = frozenset({"PATH", "LANG", "TZ", "TERM"})


@dataclass(frozen=True, slots=True)
class UnixIdentity:
    """A Unix user, as the system's user database knows it."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str

    @classmethod
    def current(cls) -> UnixIdentity:
        """Return who we are. In a container that need not be anybody with a name.

        Our home is where HOME says, as for every other program of ours.
        """
        home = os.environ.get("HOME", "")
        return _identity(os.geteuid(), os.getegid(), tuple(os.getgroups()), home)

    @classmethod
    def of(cls, name: str) -> UnixIdentity:
        """Look a user up by name, with the groups it would have after a login."""
        try:
            found = pwd.getpwnam(name)
        except (KeyError, ValueError):  # ValueError: a zero byte in the name
            raise UnknownUser(
                f"there is no Unix user {name!r} on this machine",
                hint="Create the user, or correct the name that is configured for this person.",
            ) from None
        groups = tuple(sorted(set(os.getgrouplist(found.pw_name, found.pw_gid))))
        shell = found.pw_shell or "/bin/sh"
        return cls(found.pw_name, found.pw_uid, found.pw_gid, groups, found.pw_dir, shell)


@functools.lru_cache(maxsize=8)
def _identity(uid: int, gid: int, others: tuple[int, ...], home: str) -> UnixIdentity:
    """Look a process's user up, once: this is asked for every request."""
    groups = tuple(sorted({gid, *others}))
    given = home if home.startswith("/") else None
    try:
        found = pwd.getpwuid(uid)
    except KeyError:
        return UnixIdentity(str(uid), uid, gid, groups, given or "/", "/bin/sh")
    shell = found.pw_shell or "/bin/sh"
    return UnixIdentity(found.pw_name, uid, gid, groups, given or found.pw_dir, shell)


def way_to(identity: UnixIdentity, our_uid: int | None = None) -> Way:
    """Say how a process of ours (or of `our_uid`) comes to run as somebody."""
    ours = os.geteuid() if our_uid is None else our_uid
    if identity.uid == ours:
        return "self"
    return "setuid" if ours == 0 else "sudo"


def plain_environment(identity: UnixIdentity) -> dict[str, str]:
    """Make the environment that a command starts with.

    It is a list of what is allowed, so that no secret of ours can slip through.
    """
    kept = {
        name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("LC_")
    }
    return kept | {
        "HOME": identity.home,
        "USER": identity.name,
        "LOGNAME": identity.name,
        "SHELL": identity.shell,
    }

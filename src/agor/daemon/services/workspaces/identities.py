"""Who a person's work is done as on this machine, and where what is made for them lies."""

from __future__ import annotations

from pathlib import Path

from agor.daemon.git.command import Git
from agor.daemon.pool.identities import identity_for
from agor.daemon.pool.settings import Claim, PoolSettings
from agor.daemon.services.people.people import People
from agor.environments.identity import UnixIdentity, way_to

#: In a Unix user's home; for the daemon's own user it is AGOR_HOME instead.
_FOLDER = ".agor"


class Identities:
    """Unix users by person. The pool decides in the same way, so the two never differ."""

    def __init__(self, people: People, settings: PoolSettings, home: Path) -> None:
        self._people = people
        self._settings = settings
        self._home = home
        #: Where nobody is impersonated, everybody's work is done as whoever we are.
        self._own = None if settings.run_as_unix_user else UnixIdentity.current()

    def of(self, user_id: str) -> UnixIdentity:
        """Tell who somebody's work is done as; raises `ImpersonationRefused`."""
        if self._own is not None:
            return self._own
        unix_username = self._people.unix_username(user_id)
        claim = Claim(session_id="", user_id=user_id, unix_username=unix_username)
        return identity_for(claim, self._settings)

    def git(self, user_id: str, folder: str = "/") -> Git:
        """Give git, as this person."""
        return Git(self.of(user_id), folder)

    def folder(self, identity: UnixIdentity, kind: str) -> str:
        """Tell where somebody's worktrees or clones go."""
        if way_to(identity) == "self":
            return str(self._home / kind)
        return f"{identity.home}/{_FOLDER}/{kind}"

"""Who may do what: one table, for every way in.

An action is what somebody wants to do. Its rule says which roles may do it, by how they are tied to
the person or the session it is done to. A route of the API names its action and so does the service
behind it, so REST, WebSocket and feed cannot differ.

What is not in the table is forbidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from agor.daemon.services.principal import Principal
from agor.daemon.store.shares import Circle
from agor.errors import Forbidden
from agor.protocol.people import Role, ShareAccess, Whose

#: How a person is tied to a thing: it is theirs, it was shared with them, or neither.
Tie = Literal["own", "prompt", "view", "none"]
Roles = frozenset[Role]

_NOBODY: Roles = frozenset()
_OWNER: Roles = frozenset(("owner",))
_ADMINS: Roles = frozenset(("owner", "admin"))
_WORKERS: Roles = frozenset(("owner", "admin", "member"))
_ALL: Roles = frozenset(("owner", "admin", "member", "viewer"))

Action = Literal[
    "session.create", "session.list", "session.view", "session.prompt", "session.stop",
    "session.change", "session.delete", "session.share", "session.transcript",
    "terminal.list", "terminal.open", "terminal.use", "terminal.close",
    "permission.list", "permission.decide",
    "rule.list", "rule.make", "rule.revoke",
    "credential.list", "credential.keep", "credential.keep_team", "credential.rotate",
    "repo.list", "repo.register", "repo.view", "repo.remove",
    "worktree.list", "worktree.make", "worktree.view", "worktree.remove",
    "user.list", "user.view", "user.manage", "user.set_password",
    "token.list", "token.make", "token.revoke", "sign_in.link", "sign_in.end",
    "executor.list", "audit.view", "daemon.health", "daemon.metrics",
]  # fmt: skip


class Rule(NamedTuple):
    """The roles that may do something, by their tie to what it is done to."""

    own: Roles
    #: To a session that was shared with them, to prompt in it.
    prompt: Roles = _NOBODY
    #: To a session that was shared with them, to look at.
    view: Roles = _NOBODY
    #: To what is another person's, and not shared.
    none: Roles = _NOBODY

    @property
    def anybody(self) -> Roles:
        """Those that may do it to something."""
        return self.own | self.prompt | self.view | self.none


RULES: Mapping[Action, Rule] = {
    "session.create": Rule(_WORKERS),
    "session.list": Rule(_ALL),  # gives those that they may view
    "session.view": Rule(_ALL, prompt=_ALL, view=_ALL, none=_ADMINS),
    # It runs as its owner and on its owner's keys: no role can do that unasked.
    "session.prompt": Rule(_WORKERS, prompt=_WORKERS),
    "session.stop": Rule(_WORKERS, prompt=_WORKERS, none=_ADMINS),
    "session.change": Rule(_WORKERS),
    "session.delete": Rule(_WORKERS, none=_OWNER),
    "session.share": Rule(_WORKERS),
    # It is read in the owner's home, as the owner.
    "session.transcript": Rule(_WORKERS),
    # It is a shell as the owner: neither a share nor a role makes anybody else that.
    "terminal.list": Rule(_WORKERS),  # gives one's own
    "terminal.open": Rule(_WORKERS),
    "terminal.use": Rule(_WORKERS),
    # An admin can free the machine, whatever else they may in the session.
    "terminal.close": Rule(_WORKERS, prompt=_ADMINS, view=_ADMINS, none=_ADMINS),
    "permission.list": Rule(_ALL),  # gives those of sessions that they may view
    "permission.decide": Rule(_WORKERS),
    "rule.list": Rule(_ALL, none=_ADMINS),
    "rule.make": Rule(_WORKERS),
    "rule.revoke": Rule(_WORKERS, none=_ADMINS),
    "credential.list": Rule(_WORKERS),
    "credential.keep": Rule(_WORKERS),
    "credential.keep_team": Rule(_ADMINS),
    "credential.rotate": Rule(_ADMINS),
    "repo.list": Rule(_ALL),  # gives those that they may view
    "repo.register": Rule(_WORKERS),
    "repo.view": Rule(_ALL, none=_ADMINS),
    "repo.remove": Rule(_WORKERS, none=_ADMINS),
    "worktree.list": Rule(_ALL),  # gives those that they may view
    "worktree.make": Rule(_WORKERS),
    "worktree.view": Rule(_ALL, none=_ADMINS),
    "worktree.remove": Rule(_WORKERS),
    "user.list": Rule(_ADMINS),
    "user.view": Rule(_ALL, none=_ADMINS),
    "user.manage": Rule(_ADMINS, none=_ADMINS),
    "user.set_password": Rule(_ALL, none=_ADMINS),
    "token.list": Rule(_ALL, none=_ADMINS),
    "token.make": Rule(_ALL),
    "token.revoke": Rule(_ALL, none=_ADMINS),
    "sign_in.link": Rule(_ALL),  # with the local token only
    "sign_in.end": Rule(_ALL),
    "executor.list": Rule(_ALL, none=_ADMINS),
    "audit.view": Rule(_ADMINS),
    "daemon.health": Rule(_ALL),
    "daemon.metrics": Rule(_ADMINS),
}


def circle_of(who: Principal, whose: Whose | None) -> Circle | None:
    """Tell which sessions somebody may view and wants to see; none is all there are."""
    if whose == "all" and may(who, "session.view", "none"):
        return None
    return Circle(who.user_id, own=whose != "shared", shared=whose != "mine")


def tie_to(who: Principal, user_id: str, shares: Mapping[str, ShareAccess]) -> Tie:
    """Tell how a person is tied to what is somebody's, and may be shared."""
    if who.user_id == user_id:
        return "own"
    return shares.get(who.user_id, "none")


def may(who: Principal, action: Action, tie: Tie = "own") -> bool:
    """Tell whether somebody may do something."""
    roles: Roles = getattr(RULES[action], tie)
    return who.role in roles


def check_role(who: Principal, action: Action) -> None:
    """Refuse those that may do this to nothing at all."""
    if who.role not in RULES[action].anybody:
        raise forbidden(who, action)


def forbidden(who: Principal, action: Action) -> Forbidden:
    """Say that somebody may not do something."""
    able = [role for role in ("owner", "admin", "member", "viewer") if role in RULES[action].own]
    kind, _, _ = action.partition(".")
    return Forbidden(
        f"{who.name} ({who.role}) may not do this ({action})",
        hint=f"It takes: {', '.join(able)}{_TIES.get(kind, '.')}",
    )


#: What else it takes, by what it is done to.
_TIES = {
    "session": "; and to be the one whose it is, or to have a share.",
    "terminal": "; and to be the one whose session it is in: it runs as them.",
}

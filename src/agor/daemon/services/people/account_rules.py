"""What may be done to whose account. Pure, but for the look at this machine's Unix users.

That admins manage accounts at all is said by the table in `access`. Here is what the table cannot
say, since it depends on both of the two.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from agor.daemon.services.audit.records import DAEMON, STRANGER
from agor.daemon.services.principal import Principal
from agor.daemon.store.rows import UserRow
from agor.environments.identity import UnixIdentity
from agor.errors import Conflict, Forbidden, UnknownUser, Unprocessable
from agor.protocol.people import Role
from agor.protocol.validation import quoted


def check_name(name: str) -> None:
    """Refuse names that mean somebody else in the audit log."""
    if name.lower() in (DAEMON, STRANGER):
        raise Unprocessable(
            f"body.name: {quoted(name)} is what the audit log calls whoever is no user",
            hint="Choose another name.",
        )


def check_may_touch(who: Principal, whom: UserRow) -> None:
    """Refuse admins who would act on owners or on other admins."""
    if who.user_id != whom.user_id and who.role != "owner" and whom.role in ("owner", "admin"):
        raise Forbidden(
            f"{whom.name} is {_a(whom.role)}; {who.name} ({who.role}) may not act on them",
            hint="Only an owner may act on owners and admins.",
        )


def check_may_give(who: Principal, role: Role) -> None:
    """Refuse admins who would make others as mighty as themselves."""
    if who.role != "owner" and role in ("owner", "admin"):
        raise Forbidden(
            f"{who.name} ({who.role}) may not make anybody {_a(role)}",
            hint="Only an owner may.",
        )


def check_not_oneself(who: Principal, whom: UserRow) -> None:
    """Refuse a change of one's own role."""
    if who.user_id == whom.user_id:
        raise Forbidden("nobody changes their own role", hint="Ask another owner.")


def check_owner_stays(everybody: Sequence[UserRow], changed: UserRow) -> None:
    """Refuse a change after which nobody could manage this daemon."""
    was = next((row for row in everybody if row.user_id == changed.user_id), None)
    if was is None or not _rules(was) or _rules(changed):
        return
    if not any(_rules(row) for row in everybody if row.user_id != changed.user_id):
        raise Conflict(
            f"{changed.name} is the last owner",
            hint="Make somebody else an owner first: agor user set-role NAME owner",
        )


def check_may_share(who: Principal, everybody: Sequence[UserRow], changed: UserRow) -> None:
    """Refuse admins who would map somebody to the Unix user that another one is.

    Who is the same Unix user reads the same files: this would be a way round the rules above.
    """
    if changed.unix_username is None or who.role == "owner":
        return
    for row in everybody:
        if row.user_id != changed.user_id and row.unix_username == changed.unix_username:
            raise Forbidden(
                f"{row.name} is {changed.unix_username} on this machine already, and two who are "
                "the same Unix user can read each other's files",
                hint="Only an owner may map two users to one.",
            )


def check_unix_user(name: str) -> None:
    """Refuse a Unix user that executors must not run as, or that is not there. May block."""
    try:
        uid = UnixIdentity.of(name).uid
    except UnknownUser as error:
        raise Unprocessable(
            f"unix_username: {error.message}", hint="Create that user, or correct the name."
        ) from None
    except OSError:
        # The directory that knows them does not answer. It is looked at again before each start.
        uid = 0 if name == "root" else -1
    if uid in (0, os.getuid(), os.geteuid()):
        raise Unprocessable(
            f"unix_username: {quoted(name)} could read the daemon's keys",
            hint="Take a Unix user that is neither root nor the daemon's own.",
        )


def _rules(row: UserRow) -> bool:
    return row.role == "owner" and row.disabled_at is None


def _a(role: Role) -> str:
    return f"an {role}" if role in ("owner", "admin") else f"a {role}"

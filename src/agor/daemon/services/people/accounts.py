"""Accounts: add people, look at them, change them, set their passwords.

Each change is decided in memory, stored together with its audit record, and then applied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from agor.daemon.services import access, views
from agor.daemon.services.audit.records import record
from agor.daemon.services.live import outlast
from agor.daemon.services.people.account_rules import (
    check_may_give,
    check_may_share,
    check_may_touch,
    check_name,
    check_not_oneself,
    check_owner_stays,
    check_unix_user,
)
from agor.daemon.services.people.passwords import Passwords
from agor.daemon.services.people.people import People, normal
from agor.daemon.services.people.refusals import Refusals
from agor.daemon.services.people.sign_ins import SignIns
from agor.daemon.services.people.throttle import Throttle
from agor.daemon.services.principal import Principal
from agor.daemon.services.stamps import new_id, now, time_of
from agor.daemon.store import users
from agor.daemon.store.base import Statement, Store, Write
from agor.daemon.store.rows import AuditRecord, UserRow
from agor.errors import AgorError, Conflict, Forbidden, NotFound, Unprocessable
from agor.protocol.api import Page
from agor.protocol.people import NewPassword, NewUser, User, UserChange
from agor.protocol.validation import quoted


class Accounts:
    """What is done to people."""

    def __init__(
        self,
        store: Store,
        people: People,
        passwords: Passwords,
        sign_ins: SignIns,
        throttle: Throttle,
        refusals: Refusals,
    ) -> None:
        self._store = store
        self._people = people
        self._passwords = passwords
        self._sign_ins = sign_ins
        self._throttle = throttle
        self._refusals = refusals

    # ── looking ──────────────────────────────────────────────────────────────────────────────

    def page(self, who: Principal, cursor: str | None, limit: int) -> Page[User]:
        """List everybody; who was there first comes first."""
        access.check_role(who, "user.list")
        after = views.read_cursor(cursor)
        rows = [
            row
            for row in self._people.everybody()
            if after is None or (row.created_at, row.user_id) > after
        ]
        return views.page(
            rows[: limit + 1], limit, shown, lambda row: (row.created_at, row.user_id)
        )

    def get(self, who: Principal, user_id: str) -> User:
        """Show somebody."""
        return shown(self._seen(who, user_id))

    # ── changing ─────────────────────────────────────────────────────────────────────────────

    async def add(self, who: Principal, new: NewUser, *, dry_run: bool = False) -> User:
        """Add somebody; with `dry_run`, only check whether that is possible."""
        _check_may_add(who, new)
        check_name(new.name)
        if new.unix_username is not None:
            await asyncio.to_thread(check_unix_user, new.unix_username)
        password = None if new.password is None else await self._passwords.hash(new.password)
        async with self._people.turn:
            who = self._people.as_now(who)
            _check_may_add(who, new)
            if self._people.named(new.name) is not None:
                raise Conflict(
                    f"there is a user {quoted(normal(new.name))} already",
                    hint="Small and capital letters are the same in names.",
                )
            user_id = new_id()
            row = UserRow(
                user_id=user_id,
                name=normal(new.name),
                role=new.role,
                unix_username=new.unix_username,
                created_at=time_of(user_id),
                password_hash=password,
            )
            check_may_share(who, self._people.everybody(), row)
            if dry_run:
                return shown(row)
            added = record(
                "user.added", who, subject=row.user_id, name=row.name, role=row.role,
                unix_username=row.unix_username, password=password is not None,
            )  # fmt: skip
            await self._commit([users.insert(row)], [added])
            self._people.put(row)
        return shown(row)

    async def change(self, who: Principal, user_id: str, change: UserChange) -> User:
        """Change somebody's role or Unix user, disable or enable them."""
        self._seen(who, user_id)
        access.check_role(who, "user.manage")
        if isinstance(change.unix_username, str):
            await asyncio.to_thread(check_unix_user, change.unix_username)
        async with self._people.turn:
            who = self._people.as_now(who)
            access.check_role(who, "user.manage")
            before = self._seen(who, user_id)
            check_may_touch(who, before)
            row = self._changed(who, before, change)
            if row == before:
                return shown(before)
            check_owner_stays(self._people.everybody(), row)
            if row.unix_username != before.unix_username:
                check_may_share(who, self._people.everybody(), row)
            # Who is disabled has to sign in anew, should they be enabled again.
            ended = self._sign_ins.of(user_id) if row.disabled_at is not None else []
            ends = [self._sign_ins.removal(each) for each in ended]
            await self._commit([users.update(row), *ends], _records(who, before, row))
            self._people.put(row)
            self._sign_ins.forget(ended)
            self._people.tell_changed(before, row)
        return shown(row)

    def _changed(self, who: Principal, before: UserRow, change: UserChange) -> UserRow:
        """Make of somebody who they shall be."""
        changes: dict[str, object] = {}
        if change.role is not UNSET and change.role != before.role:
            check_not_oneself(who, before)
            check_may_give(who, change.role)
            changes["role"] = change.role
        if change.unix_username is not UNSET:
            changes["unix_username"] = change.unix_username
        if change.disabled is not UNSET and change.disabled != (before.disabled_at is not None):
            changes["disabled_at"] = now() if change.disabled else None
        return msgspec.structs.replace(before, **changes)

    async def set_password(
        self, who: Principal, user_id: str, new: NewPassword, address: str
    ) -> None:
        """Set a password; it ends every other sign-in of that person.

        One's own takes the current one: a browser that was left open must not be enough. Who asks
        with the local token has the machine already.
        """
        whom = self._seen(who, user_id)
        _check_may_set_password(who, whom)
        if who.user_id == user_id and who.via is not None:
            await self._check_current(who, whom, new.current_password, address)
        password = await self._passwords.hash(new.password)
        async with self._people.turn:
            before = self._people.get(user_id)
            who = self._people.as_now(who)
            _check_may_set_password(who, before)
            row = msgspec.structs.replace(before, password_hash=password)
            ended = [each for each in self._sign_ins.of(user_id) if each.sign_in_id != who.via]
            ends = [self._sign_ins.removal(each) for each in ended]
            done = record("user.password_set", who, subject=user_id, sign_ins_ended=len(ended))
            await self._commit([users.update(row), *ends], [done])
            self._people.put(row)
            self._sign_ins.forget(ended)

    async def _check_current(
        self, who: Principal, whom: UserRow, current: str | None, address: str
    ) -> None:
        if whom.password_hash is None:
            raise Forbidden(
                f"{whom.name} has no password that could show who asks",
                hint="Ask an owner or an admin to set one: agor user set-password NAME",
            )
        if current is None:
            raise Unprocessable("current_password: one's own password takes the current one, too")
        attempt = self._throttle.begin(normal(whom.name), address)
        try:
            right = await self._passwords.verify(whom.password_hash, current)
        except AgorError:
            attempt.take_back()
            raise
        if not right:
            wrong = "wrong current password"
            self._refusals.note("user.password_set", address, whom.user_id, wrong, who)
            raise Forbidden("current_password: this is not the password")
        attempt.succeeded()

    # ── parts ────────────────────────────────────────────────────────────────────────────────

    def _seen(self, who: Principal, user_id: str) -> UserRow:
        """Find somebody, as far as this person may know of them."""
        if not access.may(who, "user.view", access.tie_to(who, user_id, {})):
            raise NotFound(f"there is no user {quoted(user_id)}")
        return self._people.get(user_id)

    async def _commit(
        self, statements: Sequence[Statement], records: Sequence[AuditRecord]
    ) -> None:
        await outlast(self._store.commit(Write(statements, records=records)))


def _check_may_add(who: Principal, new: NewUser) -> None:
    access.check_role(who, "user.manage")
    check_may_give(who, new.role)


def _check_may_set_password(who: Principal, whom: UserRow) -> None:
    if not access.may(who, "user.set_password", access.tie_to(who, whom.user_id, {})):
        raise access.forbidden(who, "user.set_password")
    check_may_touch(who, whom)


def shown(row: UserRow) -> User:
    """Show somebody, without what is secret."""
    return User(
        user_id=row.user_id,
        name=row.name,
        role=row.role,
        unix_username=row.unix_username,
        has_password=row.password_hash is not None,
        created_at=row.created_at,
        disabled_at=row.disabled_at,
    )


def _records(who: Principal, before: UserRow, row: UserRow) -> list[AuditRecord]:
    """Write down what has become of somebody."""
    records = []
    changed: dict[str, Any] = {
        name: [getattr(before, name), getattr(row, name)]
        for name in ("role", "unix_username")
        if getattr(before, name) != getattr(row, name)
    }
    if changed:
        records.append(record("user.changed", who, subject=row.user_id, name=row.name, **changed))
    if before.disabled_at != row.disabled_at:
        action = "user.enabled" if row.disabled_at is None else "user.disabled"
        records.append(record(action, who, subject=row.user_id, name=row.name))
    return records

"""Signing in and out: by name and password, or by a one-time code for the page of this machine.

What is refused is refused in one way, whatever was wrong: nobody learns here who has an account.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

import msgspec
from msgspec import Struct

from agor.daemon.services.audit.records import record
from agor.daemon.services.live import outlast
from agor.daemon.services.people.api_tokens import hash_of
from agor.daemon.services.people.passwords import Passwords
from agor.daemon.services.people.people import People, normal, principal
from agor.daemon.services.people.refusals import Refusals
from agor.daemon.services.people.sign_ins import SignIns
from agor.daemon.services.people.throttle import Throttle
from agor.daemon.services.principal import Principal
from agor.daemon.services.stamps import now
from agor.daemon.store import users
from agor.daemon.store.base import Statement, Store, Write
from agor.daemon.store.rows import AuditRecord, SignInRow, UserRow
from agor.errors import AgorError, Conflict, Forbidden, TooManyAttempts, Unauthenticated
from agor.protocol.people import SignInCode

#: Milliseconds that a code is good for, and how many there may be at once.
CODE_LIFE = 60_000
MOST_CODES = 100
#: How often a password may be changed while somebody signs in with it.
_LOOKS = 3


class SignedIn(Struct, frozen=True):
    """Somebody has signed in: this is their cookie."""

    who: Principal
    secret: str

    def __repr__(self) -> str:
        return f"SignedIn({self.who!r})"


class SigningIn:
    """How a browser gets its cookie, and loses it."""

    def __init__(
        self,
        store: Store,
        people: People,
        passwords: Passwords,
        sign_ins: SignIns,
        throttle: Throttle,
        refusals: Refusals,
        clock: Callable[[], int] = now,
    ) -> None:
        self.clock = clock
        self._store = store
        self._people = people
        self._passwords = passwords
        self._sign_ins = sign_ins
        self._throttle = throttle
        self._refusals = refusals
        #: Hash of a code → who it is for, and until when.
        self._codes: dict[bytes, tuple[str, int]] = {}

    async def by_password(
        self, name: str, password: str, address: str, old: SignInRow | None
    ) -> SignedIn:
        """Sign in with a name and its password. `old` is the browser's present sign-in."""
        found = self._people.named(name)
        try:
            attempt = self._throttle.begin(normal(name), address)
        except TooManyAttempts:
            self._note(found, address, "too many attempts")
            raise
        try:
            signed_in = await self._if_right(found, password, address, old)
        except AgorError:
            attempt.take_back()
            raise
        if signed_in is None:
            raise Unauthenticated(
                "there is nobody of this name with this password",
                hint="After a few attempts the next ones have to wait.",
            )
        attempt.succeeded()
        return signed_in

    async def _if_right(
        self, found: UserRow | None, password: str, address: str, old: SignInRow | None
    ) -> SignedIn | None:
        """Let somebody in if this is their password."""
        for _ in range(_LOOKS):
            stored = None if found is None else found.password_hash
            right = await self._passwords.verify(stored, password)
            fresh = None
            if right and stored is not None and self._passwords.is_outdated(stored):
                fresh = await self._passwords.hash(password)
            async with self._people.turn:
                user = None if found is None else self._people.enabled(found.user_id)
                if user is not None and user.password_hash != stored:
                    # It was changed while we looked: look again.
                    found = user
                    continue
                if right and user is not None and stored is not None:
                    return await self._admit(user, "password", address, old, fresh)
            why = "disabled" if right else "wrong name or password"
            self._note(found, address, why)
            return None
        return None

    def make_code(self, who: Principal) -> SignInCode:
        """Make a code that signs a browser of this machine in, once and soon."""
        if who.via is not None:
            raise Forbidden(
                "only the local token gets a one-time code",
                hint="Sign in with your name and password instead.",
            )
        at = self.clock()
        for digest, (_, until) in list(self._codes.items()):
            if until <= at or len(self._codes) >= MOST_CODES:
                del self._codes[digest]
        code = secrets.token_urlsafe(32)
        self._codes[hash_of(code)] = (who.user_id, at + CODE_LIFE)
        return SignInCode(code=code, expires_at=at + CODE_LIFE)

    async def by_code(self, code: str, address: str, old: SignInRow | None) -> SignedIn:
        """Sign in with a one-time code."""
        try:
            attempt = self._throttle.begin(None, address)
        except TooManyAttempts:
            self._note(None, address, "too many attempts")
            raise
        # Gone from now on, whatever comes of it.
        user_id, until = self._codes.pop(hash_of(code), ("", 0))
        async with self._people.turn:
            user = self._people.enabled(user_id)
            if user is None or until <= self.clock():
                self._note(None, address, "wrong or expired code")
                raise Unauthenticated(
                    "this code was used already, has expired, or never was one",
                    hint="Make a new one; it is good for a minute.",
                )
            signed_in = await self._admit(user, "code", address, old, None)
        attempt.take_back()
        return signed_in

    async def end(self, who: Principal) -> None:
        """Sign out the browser that asks."""
        async with self._people.turn:
            row = None if who.via is None else self._sign_ins.get(who.via)
            if row is None:
                raise Conflict(
                    "there is nothing to sign out of: this request came with a token",
                    hint="A token is ended with: agor token revoke",
                )
            ended = record("signin.ended", who, subject=row.sign_in_id)
            await self._commit([self._sign_ins.removal(row)], [ended])
            self._sign_ins.forget([row])

    # ── parts ────────────────────────────────────────────────────────────────────────────────

    async def _admit(
        self, user: UserRow, by: str, address: str, old: SignInRow | None, fresh: str | None
    ) -> SignedIn:
        """Let somebody in, with a new cookie; that which the browser had is good no more."""
        row, secret = self._sign_ins.make(user.user_id)
        ended = self._sign_ins.in_the_way(user.user_id)
        if old is not None and old not in ended:
            ended.append(old)
        statements = [self._sign_ins.insertion(row), *map(self._sign_ins.removal, ended)]
        if fresh is not None:
            user = msgspec.structs.replace(user, password_hash=fresh)
            statements.append(users.update(user))
        who = principal(user, row.sign_in_id)
        done = record("signin.ok", who, subject=row.sign_in_id, by=by, address=address)
        await self._commit(statements, [done])
        self._people.put(user)
        self._sign_ins.admit(row)
        self._sign_ins.forget(ended)
        return SignedIn(who, secret)

    async def _commit(self, statements: list[Statement], records: list[AuditRecord]) -> None:
        write = Write(statements, records=records)
        await outlast(self._store.commit(write))

    def _note(self, found: UserRow | None, address: str, why: str) -> None:
        # Of a name that nobody has, nothing is kept: it may be a password in the wrong field.
        subject = None if found is None else found.user_id
        self._refusals.note("signin.refused", address, subject, why)

"""Sign-ins: the browsers that people have signed in with. All that are good are in memory.

Only the hash of a cookie is stored. How one comes to have a cookie is in `signing_in`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable

from agor.daemon.services.people.api_tokens import hash_of
from agor.daemon.services.people.people import People
from agor.daemon.services.stamps import new_id, now, time_of
from agor.daemon.store import sign_ins
from agor.daemon.store.base import Statement, Store
from agor.daemon.store.rows import SignInRow

#: Milliseconds that a sign-in is good for.
LIFE = 14 * 24 * 3600 * 1000
#: Browsers of one person at once; the oldest is signed out for a new one.
MOST_OF_ONE = 50


class SignIns:
    """The sign-ins that are good."""

    def __init__(self, store: Store, people: People, clock: Callable[[], int] = now) -> None:
        self.clock = clock
        self._store = store
        self._people = people
        self._by_hash: dict[bytes, SignInRow] = {}

    async def open(self) -> None:
        """Learn which there are."""
        for row in await sign_ins.live(self._store, self.clock()):
            self._by_hash[row.secret_hash] = row

    def find(self, digest: bytes) -> SignInRow | None:
        """Find a sign-in by the hash of its cookie; None if it is good no more."""
        row = self._by_hash.get(digest)
        return None if row is None or row.expires_at <= self.clock() else row

    def get(self, sign_in_id: str) -> SignInRow | None:
        """Find a sign-in by its id."""
        found = (row for row in self._by_hash.values() if row.sign_in_id == sign_in_id)
        return next(found, None)

    def of(self, user_id: str) -> list[SignInRow]:
        """List somebody's, the oldest first."""
        found = [row for row in self._by_hash.values() if row.user_id == user_id]
        return sorted(found, key=lambda row: (row.created_at, row.sign_in_id))

    def make(self, user_id: str) -> tuple[SignInRow, str]:
        """Make a sign-in and its cookie; it counts once it is stored and `admit` is called."""
        secret = secrets.token_urlsafe(32)
        sign_in_id = new_id()
        row = SignInRow(
            sign_in_id=sign_in_id,
            user_id=user_id,
            secret_hash=hash_of(secret),
            created_at=time_of(sign_in_id),
            expires_at=self.clock() + LIFE,
        )
        return row, secret

    def in_the_way(self, user_id: str) -> list[SignInRow]:
        """List those that have to go for a new one of the same person."""
        found = self.of(user_id)
        return found[: max(0, len(found) - MOST_OF_ONE + 1)]

    def insertion(self, row: SignInRow) -> Statement:
        """Store one."""
        return sign_ins.insert(row)

    def removal(self, row: SignInRow) -> Statement:
        """Store that one has ended."""
        return sign_ins.remove(row.sign_in_id)

    def admit(self, row: SignInRow) -> None:
        """Accept its cookie from now on."""
        self._by_hash[row.secret_hash] = row

    def forget(self, rows: Iterable[SignInRow]) -> None:
        """Accept their cookies no more, and tell whoever still serves them."""
        for row in rows:
            if self._by_hash.pop(row.secret_hash, None) is not None:
                self._people.tell_revoked(row.sign_in_id)

    def end_expired(self) -> None:
        """Forget those whose time is over."""
        at = self.clock()
        self.forget([row for row in self._by_hash.values() if row.expires_at <= at])

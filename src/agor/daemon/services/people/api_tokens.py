"""API tokens: how people's programs come in.

Only hashes are stored. All that are good are in memory by their hash, so a request needs no
database to be let in. When one was used last is known to the minute, and written now and then.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from agor.daemon.services import access, views
from agor.daemon.services.audit.records import record
from agor.daemon.services.live import outlast
from agor.daemon.services.people.account_rules import check_may_touch
from agor.daemon.services.people.people import People
from agor.daemon.services.principal import Principal
from agor.daemon.services.stamps import new_id, now, time_of
from agor.daemon.store import api_tokens
from agor.daemon.store.base import Store, Write
from agor.daemon.store.rows import ApiTokenRow
from agor.errors import Conflict, Forbidden, NotFound, Unprocessable
from agor.protocol.api import Page
from agor.protocol.people import ApiToken, MadeToken, NewToken
from agor.protocol.validation import quoted

_DAY = 24 * 3600 * 1000
DEFAULT_LIFE = 90 * _DAY
#: Milliseconds within which a second use is not worth writing down.
_COARSE = 60_000
MOST_OF_ONE = 100


class ApiTokens:
    """The tokens that are good."""

    def __init__(self, store: Store, people: People, clock: Callable[[], int] = now) -> None:
        self.clock = clock
        self._store = store
        self._people = people
        self._by_hash: dict[bytes, ApiTokenRow] = {}
        self._by_id: dict[str, bytes] = {}
        #: Those whose last use is not written yet.
        self._used: set[str] = set()

    async def open(self) -> None:
        """Learn which there are."""
        for row in await api_tokens.live(self._store, self.clock()):
            self._put(row)

    def find(self, digest: bytes) -> ApiTokenRow | None:
        """Find a token by its hash; None if it is good no more."""
        row = self._by_hash.get(digest)
        if row is None:
            return None
        at = self.clock()
        if row.expires_at is not None and row.expires_at <= at:
            return None
        if at - (row.last_used_at or 0) >= _COARSE:
            self._put(msgspec.structs.replace(row, last_used_at=at))
            self._used.add(row.token_id)
        return row

    def get(self, token_id: str) -> ApiTokenRow | None:
        """Find a token by its id."""
        digest = self._by_id.get(token_id)
        return None if digest is None else self._by_hash[digest]

    # ── use cases ────────────────────────────────────────────────────────────────────────────

    async def make(self, who: Principal, new: NewToken) -> MadeToken:
        """Make a token for whoever asks. It is shown this once."""
        created = self.clock()
        if sum(row.user_id == who.user_id for row in self._by_hash.values()) >= MOST_OF_ONE:
            raise Conflict(
                f"{who.name} has {MOST_OF_ONE} tokens already",
                hint="Revoke those that nobody uses: agor token list",
            )
        token = f"agor_{secrets.token_urlsafe(32)}"
        token_id = new_id()
        row = ApiTokenRow(
            token_id=token_id,
            user_id=who.user_id,
            name=new.name,
            token_hash=hash_of(token),
            created_at=time_of(token_id),
            expires_at=self._expiry(who, new, created),
            last_used_at=None,
            revoked_at=None,
        )
        made = record(
            "token.made", who, subject=row.token_id, name=row.name, expires_at=row.expires_at
        )
        await self._commit(Write([api_tokens.insert(row)], records=[made]))
        self._put(row)
        return MadeToken(**_members(row), token=token)

    def _expiry(self, who: Principal, new: NewToken, created: int) -> int | None:
        """Decide how long a token is good for: no longer than the token it was made with."""
        parent = None if who.via is None else self.get(who.via)
        latest = None if parent is None else parent.expires_at
        if new.expires_at is UNSET:
            return min(created + DEFAULT_LIFE, latest or created + DEFAULT_LIFE)
        if new.expires_at is not None and new.expires_at <= created:
            raise Unprocessable("expires_at: this has passed already")
        if latest is not None and (new.expires_at is None or new.expires_at > latest):
            raise Forbidden(
                "a token that is made with a token expires no later than that one",
                hint="Make it with your password or on the daemon's own machine.",
            )
        return new.expires_at

    def page(
        self, who: Principal, user_id: str | None, cursor: str | None, limit: int
    ) -> Page[ApiToken]:
        """List the tokens of somebody, the newest first."""
        whose = who.user_id if user_id is None else user_id
        if not access.may(who, "token.list", access.tie_to(who, whose, {})):
            raise NotFound(f"there is no user {quoted(whose)}")
        self._people.get(whose)
        before, at = views.read_cursor(cursor), self.clock()
        rows = [
            row
            for row in self._by_hash.values()
            if row.user_id == whose
            and (row.expires_at is None or row.expires_at > at)
            and (before is None or (row.created_at, row.token_id) < before)
        ]
        rows.sort(key=lambda row: (row.created_at, row.token_id), reverse=True)
        return views.page(
            rows[: limit + 1], limit, _shown, lambda row: (row.created_at, row.token_id)
        )

    async def revoke(self, who: Principal, token_id: str) -> None:
        """End a token at once."""
        async with self._people.turn:
            who = self._people.as_now(who)
            row = self.get(token_id)
            if row is None or not access.may(
                who, "token.revoke", access.tie_to(who, row.user_id, {})
            ):
                raise NotFound(f"there is no token {quoted(token_id)}")
            check_may_touch(who, self._people.get(row.user_id))
            revoked = record("token.revoked", who, subject=token_id, name=row.name)
            ended = api_tokens.revoke(token_id, self.clock())
            await self._commit(Write([ended], records=[revoked]))
            self._drop(row)

    # ── now and then ─────────────────────────────────────────────────────────────────────────

    def end_expired(self) -> None:
        """Forget those whose time is over, and tell whoever still serves them."""
        at = self.clock()
        for row in list(self._by_hash.values()):
            if row.expires_at is not None and row.expires_at <= at:
                self._drop(row)

    async def write_uses(self) -> None:
        """Write down when tokens were used last."""
        rows = [row for token_id in self._used if (row := self.get(token_id)) is not None]
        self._used.clear()
        uses = [api_tokens.used(row.token_id, row.last_used_at or 0) for row in rows]
        if uses:
            await self._store.commit(Write(uses))

    async def _commit(self, write: Write) -> None:
        await outlast(self._store.commit(write))

    def _put(self, row: ApiTokenRow) -> None:
        self._by_hash[row.token_hash] = row
        self._by_id[row.token_id] = row.token_hash

    def _drop(self, row: ApiTokenRow) -> None:
        self._by_hash.pop(row.token_hash, None)
        self._by_id.pop(row.token_id, None)
        self._people.tell_revoked(row.token_id)


def hash_of(secret: str) -> bytes:
    """Tell what is stored of a token or a cookie."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).digest()


def _members(row: ApiTokenRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ApiToken.__struct_fields__}


def _shown(row: ApiTokenRow) -> ApiToken:
    return ApiToken(**_members(row))

"""Session tokens: what ties an executor's calls to one session, task, user and executor.

Only hashes are stored. Every token that is worth anything belongs to a task that has not ended, so
all of them are in memory and a check needs no database.

A *use* is a key that was handed out. Events and questions do not count, so a token with one use
does what it should: its task gets one key.
"""

from __future__ import annotations

import hashlib
import secrets

import msgspec
from msgspec import Struct

from agor.daemon.services.stamps import now
from agor.daemon.store import tokens
from agor.daemon.store.base import Statement
from agor.daemon.store.rows import TokenRow
from agor.errors import TokenRefused


class Grant(Struct, kw_only=True):
    """A token that was given out."""

    row: TokenRow
    #: The token itself; none if it was given out by an earlier daemon and not shown to us yet.
    token: str | None = None
    #: How often its task has asked for a key.
    asked: int = 0


class Tokens:
    """The tokens of tasks that have not ended."""

    def __init__(self, expiration_ms: int, max_uses: int | None) -> None:
        self._expiration_ms = expiration_ms
        self._max_uses = max_uses
        self._by_hash: dict[bytes, Grant] = {}
        #: Those that have been shown to us, to spare the hashing.
        self._by_token: dict[str, Grant] = {}

    def mint(self, session_id: str, task_id: str, user_id: str, executor_id: str) -> Grant:
        """Make a token; it counts once its row is stored and `admit` is called."""
        token = secrets.token_urlsafe(32)
        created = now()
        row = TokenRow(
            token_hash=hash_of(token),
            session_id=session_id,
            task_id=task_id,
            user_id=user_id,
            executor_id=executor_id,
            created_at=created,
            expires_at=created + self._expiration_ms,
            max_uses=self._max_uses,
            uses=0,
            revoked_at=None,
        )
        return Grant(row=row, token=token)

    def admit(self, grant: Grant) -> None:
        """Accept a token from now on."""
        self._by_hash[grant.row.token_hash] = grant
        if grant.token is not None:
            self._by_token[grant.token] = grant

    def revoke(self, task_id: str) -> list[Statement]:
        """Accept a task's tokens no more; the statements make that durable."""
        ended = [grant for grant in self._by_hash.values() if grant.row.task_id == task_id]
        for grant in ended:
            del self._by_hash[grant.row.token_hash]
            if grant.token is not None:
                self._by_token.pop(grant.token, None)
        return [tokens.revoke(grant.row.token_hash, now()) for grant in ended]

    def check(self, token: str, executor_id: str, task_id: str | None = None) -> Grant:
        """Find what a token grants to this executor, or refuse it."""
        grant = self._by_token.get(token)
        if grant is None:
            grant = self._by_hash.get(hash_of(token))
            if grant is None:
                raise TokenRefused("this session token is not known, or its task has ended")
            grant.token = token
            self._by_token[token] = grant
        row = grant.row
        if row.executor_id != executor_id:
            raise TokenRefused("this session token belongs to another executor")
        if task_id is not None and row.task_id != task_id:
            raise TokenRefused("this session token belongs to another task")
        if row.expires_at <= now():
            raise TokenRefused("this session token has expired")
        return grant

    def use(self, grant: Grant) -> Statement:
        """Count a use, or refuse it; the statement makes that durable."""
        row = grant.row
        if self._by_hash.get(row.token_hash) is not grant:
            raise TokenRefused("the task of this session token has ended")
        if row.max_uses is not None and row.uses >= row.max_uses:
            raise TokenRefused(
                f"this session token was used {row.uses} times, which is all it may",
                hint="execution.session_token_max_uses is the number of keys a task may get.",
            )
        grant.row = msgspec.structs.replace(row, uses=row.uses + 1)
        return tokens.used(row.token_hash, row.uses + 1)

    def unuse(self, grant: Grant) -> None:
        """Take a use back that could not be stored."""
        grant.row = msgspec.structs.replace(grant.row, uses=grant.row.uses - 1)

    def of_task(self, task_id: str) -> Grant | None:
        """Find a task's token."""
        return next((g for g in self._by_hash.values() if g.row.task_id == task_id), None)


def hash_of(token: str) -> bytes:
    """Tell what is stored of a token."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()

"""Idempotency: a POST that is repeated with the same key has one effect, and the same answer.

The answer is stored in the same transaction as the effect, so there is never one without the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec
from msgspec import Struct

from agor.daemon.services.principal import Principal
from agor.daemon.services.stamps import now
from agor.daemon.store import receipts
from agor.daemon.store.base import Statement, Store
from agor.daemon.store.rows import ReceiptRow
from agor.errors import Conflict, Unprocessable

#: How long an answer is kept, in milliseconds.
KEPT = 24 * 3600 * 1000


class Answered(Struct, frozen=True):
    """It was done before: this was the answer."""

    status: int
    body: bytes


class Receipt:
    """The right to do it now, under this key."""

    def __init__(self, scope: str, key: str, fingerprint: bytes, done: Callable[[], None]) -> None:
        self._scope = scope
        self._key = key
        self._fingerprint = fingerprint
        self.release = done

    def statement(self, status: int, result: Struct) -> Statement:
        """Keep the answer, together with what was done."""
        return receipts.insert(
            ReceiptRow(
                scope=self._scope,
                key=self._key,
                fingerprint=self._fingerprint,
                status=status,
                body=msgspec.json.encode(result),
                created_at=now(),
            )
        )


class Receipts:
    """The keys in use."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._under_way: set[tuple[str, str]] = set()

    async def begin(
        self, who: Principal, scope: str, key: str, request: bytes
    ) -> Answered | Receipt:
        """Look whether this was done before; if not, reserve the key until `release`."""
        scope = f"{who.user_id} {scope}"
        if (scope, key) in self._under_way:
            raise Conflict(
                "a request with this Idempotency-Key is still under way",
                hint="Wait for its answer, or repeat this one a little later.",
            )
        self._under_way.add((scope, key))
        receipt = Receipt(
            scope, key, hashlib.sha256(request).digest(),
            lambda: self._under_way.discard((scope, key)),
        )  # fmt: skip
        try:
            found = await receipts.get(self._store, scope, key)
        except BaseException:
            receipt.release()
            raise
        if found is None:
            return receipt
        receipt.release()
        if found.fingerprint != hashlib.sha256(request).digest():
            raise Unprocessable(
                "this Idempotency-Key was used for another request",
                hint="Make a new key for every new request.",
            )
        return Answered(found.status, found.body)

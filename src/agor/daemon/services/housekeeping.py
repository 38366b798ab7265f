"""Forgets what nobody can ask for any more, now and then."""

from __future__ import annotations

import asyncio

import structlog

from agor.daemon.services import receipts as answers
from agor.daemon.services.stamps import now
from agor.daemon.store import api_tokens, receipts, sign_ins, tokens
from agor.daemon.store.base import Store, Write
from agor.errors import StoreError

log = structlog.get_logger("agor.daemon")

#: Seconds between two rounds.
_INTERVAL = 3600.0
#: Milliseconds for which an ended token is known: its executor may still report with it.
_TOKENS_KEPT = 7 * 24 * 3600 * 1000


async def keep_house(store: Store) -> None:
    """Go round for as long as the daemon runs."""
    while True:
        try:
            await clean(store, now())
        except StoreError as error:
            log.warning("not_cleaned", why=error.message)
        await asyncio.sleep(_INTERVAL)


async def clean(store: Store, at: int) -> None:
    """Forget what is too old at this time."""
    old = at - _TOKENS_KEPT
    await store.commit(
        Write(
            [
                receipts.purge(at - answers.KEPT),
                tokens.purge(old),
                api_tokens.purge(old),
                sign_ins.purge(at),
            ]
        )
    )

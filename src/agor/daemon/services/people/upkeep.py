"""Looks after the ways in, now and then: ends what has expired, writes down what was used."""

from __future__ import annotations

import asyncio

import structlog

from agor.daemon.services.people.api_tokens import ApiTokens
from agor.daemon.services.people.refusals import Refusals
from agor.daemon.services.people.sign_ins import SignIns
from agor.errors import StoreError

log = structlog.get_logger("agor.people")

#: Seconds between two rounds; so much longer may a feed last than the token it was opened with.
_INTERVAL = 60.0


class Upkeep:
    """What has to be done without anybody asking for it."""

    def __init__(self, tokens: ApiTokens, sign_ins: SignIns, refusals: Refusals) -> None:
        self._tokens = tokens
        self._sign_ins = sign_ins
        self._refusals = refusals

    async def run(self) -> None:
        """Go round for as long as the daemon runs."""
        while True:
            await asyncio.sleep(_INTERVAL)
            await self.go_round()

    async def go_round(self) -> None:
        """Do all of it once."""
        self._tokens.end_expired()
        self._sign_ins.end_expired()
        self._refusals.roll()
        try:
            await self._tokens.write_uses()
        except StoreError as error:
            log.warning("uses_not_written", why=error.message)

    async def finish(self) -> None:
        """Do it a last time, before the daemon ends."""
        await self.go_round()
        await self._refusals.finish()

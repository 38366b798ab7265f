"""Where API keys come from. Nothing here holds any: credentials come with accounts."""

from __future__ import annotations

from typing import Protocol

from agor.daemon.store.rows import TokenRow
from agor.errors import HandlerFailed
from agor.protocol.methods import GetApiKeyResult
from agor.protocol.validation import quoted


class Keys(Protocol):
    """Gives keys to tasks."""

    async def get(self, grant: TokenRow, name: str) -> GetApiKeyResult:
        """Give a key to the task that holds this grant, or refuse."""


class NoKeys:
    """There are none."""

    async def get(self, grant: TokenRow, name: str) -> GetApiKeyResult:
        """Say so."""
        del grant
        raise HandlerFailed(
            f"there is no such credential: {quoted(name)}",
            hint="This daemon keeps no credentials yet.",
            code="no_such_credential",
        )

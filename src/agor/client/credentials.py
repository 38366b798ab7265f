"""Credentials, as a client of the daemon keeps them."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence

from agor.client.calls import Calls
from agor.errors import Unprocessable
from agor.protocol.api import Page
from agor.protocol.credentials import Credential, NewCredential, NewRotation, Rotation
from agor.protocol.validation import quoted

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


class CredentialCalls:
    """`client.credentials`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def list(self) -> list[Credential]:
        """List one's own credentials and the team's, by name; never their values."""
        return (await self._calls.ask("GET", "/credentials", Page[Credential])).items

    async def set(
        self,
        name: str,
        value: str,
        *,
        base_url: str | None = None,
        agents: Sequence[str] | None = None,
        team: bool = False,
        dry_run: bool = False,
    ) -> Credential:
        """Keep a key under a name, in the place of what was there; with `team`, for everybody.

        With `dry_run`, only check whether that is possible.
        """
        new = NewCredential(
            value=value, base_url=base_url, agents=None if agents is None else [*agents]
        )
        query = _whose(team) | ({"dry_run": "true"} if dry_run else {})
        return await self._calls.ask("PUT", _path(name), Credential, query=query, body=new)

    async def delete(self, name: str, *, team: bool = False) -> None:
        """Keep a key no more."""
        await self._calls.ask("DELETE", _path(name), None, query=_whose(team))

    async def rotate(self, *, lost: bool = False, key: str | None = None) -> Rotation:
        """Begin to seal all credentials with a new version of the master key.

        `lost` gives up what was sealed with a master key that is gone, if there is no copy of it.
        """
        key = uuid.uuid4().hex if key is None else key
        return await self._calls.ask(
            "POST", "/credentials/rotation", Rotation, body=NewRotation(lost=lost), key=key
        )

    async def rotation(self) -> Rotation:
        """Tell how far that is."""
        return await self._calls.ask("GET", "/credentials/rotation", Rotation)


def _path(name: str) -> str:
    """Let nothing into a path that could lead elsewhere."""
    if not _NAME.fullmatch(name):
        raise Unprocessable(
            f"{quoted(name)} cannot be the name of a credential",
            hint="Letters, digits and _, at most 128, and no digit first: ANTHROPIC_API_KEY.",
        )
    return f"/credentials/{name}"


def _whose(team: bool) -> dict[str, str]:
    return {"team": "true"} if team else {}

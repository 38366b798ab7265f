"""A token for somebody who has none yet, but a name and a password.

A browser's way in, once: sign in, make the token, sign out again.
"""

from __future__ import annotations

import ssl
from functools import partial
from typing import Any

import httpx
import msgspec

from agor.client.address import Address, Find, checking_connections
from agor.client.calls import no_answer
from agor.client.problems import revive
from agor.errors import AgorError, InvalidResult
from agor.protocol.people import MadeToken, NewToken, SignInRequest
from agor.protocol.validation import UNREADABLE, name_the_field

_TIMEOUT = 30.0


async def check_reachable(find: Find) -> None:
    """Raise `DaemonNotRunning` if no daemon answers there. Nothing secret is sent."""
    address = find()
    async with _connections(address) as http:
        try:
            await http.get(f"{address.url}/livez")
        except httpx.TransportError as error:
            told: AgorError = no_answer(address)
            raise told from error


async def make_token(find: Find, name: str, password: str, new: NewToken) -> MadeToken:
    """Make a token for whoever has this name and password."""
    address = find()
    async with _connections(address) as http:
        sign_in = SignInRequest(name=name, password=password)
        post = partial(_post, http, address, checking_connections(address, find))
        await post("/auth/login", sign_in)
        made = await post("/tokens", new)
        await post("/auth/logout", None)
    try:
        return msgspec.json.decode(made, type=MadeToken)
    except UNREADABLE as error:
        raise InvalidResult(name_the_field(error, "the answer to POST /tokens")) from None


def _connections(address: Address) -> httpx.AsyncClient:
    verify = ssl.create_default_context() if address.url.startswith("https:") else False
    # No proxy that the environment may name: it would be shown the password.
    return httpx.AsyncClient(verify=verify, timeout=_TIMEOUT, trust_env=False)


async def _post(
    http: httpx.AsyncClient,
    address: Address,
    extensions: dict[str, Any],
    path: str,
    body: msgspec.Struct | None,
) -> bytes:
    headers = {"Origin": address.url}
    if body is not None:
        headers["Content-Type"] = "application/json"
    content = None if body is None else msgspec.json.encode(body)
    try:
        answer = await http.post(
            address.url + path, headers=headers, content=content, extensions=extensions
        )
    except httpx.TransportError as error:
        told: AgorError = no_answer(address)
        raise told from error
    if not answer.is_success:
        raise revive(answer.status_code, answer.content)
    return answer.content

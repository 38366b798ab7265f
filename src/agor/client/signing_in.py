"""A token for somebody who has none yet, but a name and a password.

A browser's way in, once: sign in, make the token, sign out again.
"""

from __future__ import annotations

import ssl

import httpx
import msgspec

from agor.client.address import Address, fixed
from agor.client.calls import no_answer
from agor.client.problems import revive
from agor.errors import AgorError, InvalidResult
from agor.protocol.people import MadeToken, NewToken, SignInRequest
from agor.protocol.validation import UNREADABLE, name_the_field

_TIMEOUT = 30.0


async def make_token(url: str, name: str, password: str, new: NewToken) -> MadeToken:
    """Make a token for whoever has this name and password."""
    address = fixed(url, "none")
    verify = ssl.create_default_context() if address.url.startswith("https:") else False
    # No proxy that the environment may name: it would be shown the password.
    async with httpx.AsyncClient(verify=verify, timeout=_TIMEOUT, trust_env=False) as http:
        sign_in = SignInRequest(name=name, password=password)
        await _post(http, address, "/auth/login", sign_in)
        made = await _post(http, address, "/tokens", new)
        await _post(http, address, "/auth/logout", None)
    try:
        return msgspec.json.decode(made, type=MadeToken)
    except UNREADABLE as error:
        raise InvalidResult(name_the_field(error, "the answer to POST /tokens")) from None


async def _post(
    http: httpx.AsyncClient, address: Address, path: str, body: msgspec.Struct | None
) -> bytes:
    headers = {"Origin": address.url}
    if body is not None:
        headers["Content-Type"] = "application/json"
    content = None if body is None else msgspec.json.encode(body)
    try:
        answer = await http.post(address.url + path, headers=headers, content=content)
    except httpx.TransportError as error:
        told: AgorError = no_answer(address)
        raise told from error
    if not answer.is_success:
        raise revive(answer.status_code, answer.content)
    return answer.content

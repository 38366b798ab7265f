"""One request and its answer; again, if the connection fails and asking twice does no harm.

What is safe to repeat: whatever only reads, and whatever carries an Idempotency-Key. Anything is
safe to repeat if the daemon could not even be reached.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

import httpx
import msgspec

import agor
from agor.client.address import Address, Find, checking_connections
from agor.client.patience import Patience, wish_of
from agor.client.problems import revive
from agor.errors import AgorError, DaemonNotRunning, Disconnected, InvalidResult, TimedOut
from agor.protocol.api import Page
from agor.protocol.validation import UNREADABLE, name_the_field

T = TypeVar("T")

#: Seconds for a connection, and for an answer: the daemon waits for a busy session, too.
_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
#: Items of one page, when all pages are asked for.
_PAGE = 200
_USER_AGENT = f"agor-client/{agor.__version__}"


class Calls:
    """Requests to one daemon."""

    def __init__(self, find: Find, attempts: int) -> None:
        self._find = find
        self._attempts = attempts
        self._http: httpx.AsyncClient | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()

    async def ask(
        self,
        method: str,
        path: str,
        form: type[T] | None,
        *,
        query: dict[str, Any] | None = None,
        body: msgspec.Struct | None = None,
        key: str | None = None,
        timeout: float | None = None,
    ) -> T:
        """Ask, and read the answer into its form; None if it has no content.

        `timeout` is for what takes the daemon longer than most.
        """
        headers = {"User-Agent": _USER_AGENT, "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        given = {name: value for name, value in (query or {}).items() if value is not None}
        if given:
            path = f"{path}?{urlencode(given)}"
        content = None if body is None else msgspec.json.encode(body)
        patient = _TIMEOUT if timeout is None else httpx.Timeout(timeout, connect=_TIMEOUT.connect)
        safe = method == "GET" or bool(key)
        answer = await self._send(method, path, headers, content, safe, patient)
        if form is None:
            return cast("T", None)
        try:
            return msgspec.json.decode(answer.content, type=form)
        except UNREADABLE as error:
            raise InvalidResult(
                name_the_field(error, f"the answer to {method} {path}"),
                hint="Are the daemon and this program of the same version?",
            ) from None

    async def list(self, path: str, form: type[Page[T]], query: dict[str, Any]) -> AsyncIterator[T]:
        """Ask for a list, page by page as it is read."""
        cursor = None
        while True:
            asked = query | {"limit": _PAGE, "cursor": cursor}
            page = await self.ask("GET", path, form, query=asked)
            for item in page.items:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return

    async def _send(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        content: bytes | None,
        safe: bool,
        timeout: httpx.Timeout,
    ) -> httpx.Response:
        patience = Patience()
        for attempt in range(1, self._attempts + 1):
            last, wish = attempt == self._attempts, None
            try:
                address = self._find()
                answer = await self._request(
                    address, method, path, headers | address.headers, content, timeout
                )
            except DaemonNotRunning:
                if last:
                    raise
            except httpx.TransportError as error:
                told, nothing_sent = _explain(error, address)
                if last or not (safe or nothing_sent):
                    raise told from error
            else:
                if answer.is_success:
                    return answer
                wish = wish_of(answer.headers.get("retry-after"))
                if last or wish is None or not safe:
                    raise revive(answer.status_code, answer.content)
            await patience.pause(wish)
        raise AssertionError("the last attempt returns or raises")

    async def _request(
        self,
        address: Address,
        method: str,
        path: str,
        headers: dict[str, str],
        content: bytes | None,
        timeout: httpx.Timeout,
    ) -> httpx.Response:
        try:
            return await self._connections(address).request(
                method,
                address.url + path,
                headers=headers,
                content=content,
                timeout=timeout,
                extensions=checking_connections(address, self._find),
            )
        except AttributeError as error:
            # A connection that ends as it begins has no socket when anyio looks at it, on uvloop.
            if "getpeername" not in str(error):
                raise
            raise httpx.ConnectError("the connection ended at once") from error

    def _connections(self, address: Address) -> httpx.AsyncClient:
        if self._http is None:
            # Certificates take long to load, and the daemon of this machine has none.
            secure = address.url.startswith("https:")
            verify = ssl.create_default_context() if secure else False
            # No proxy that the environment may name: it would be shown the token.
            self._http = httpx.AsyncClient(verify=verify, timeout=_TIMEOUT, trust_env=False)
        return self._http


def _explain(error: httpx.TransportError, address: Address) -> tuple[AgorError, bool]:
    """Say what became of a request that has no answer; and whether it surely was not sent."""
    if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)):
        return no_answer(address), True
    if isinstance(error, httpx.TimeoutException):
        return TimedOut(
            f"the daemon at {address.url} did not answer in time",
            hint="It may have done it all the same. Look at it: agor daemon status",
        ), False
    return Disconnected(
        f"the connection to the daemon at {address.url} was cut",
        hint="It may have done it all the same. Look at it: agor daemon status",
    ), False


def no_answer(address: Address) -> DaemonNotRunning:
    """Nobody listens there."""
    return DaemonNotRunning(
        f"no daemon answers at {address.url}", hint="Start it with: agor daemon start"
    )

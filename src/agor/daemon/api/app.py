"""The application: from a request of ASGI to its answer. Bare ASGI over the table of routes.

The order of the checks: where it comes from, what it asks for, who asks, and then its form. So a
stranger learns nothing, and what is refused is refused before its body is read.
"""

from __future__ import annotations

import time
from typing import Any

import structlog
from uvicorn.protocols.utils import ClientDisconnected

from agor.daemon.api import idempotency
from agor.daemon.api.access import Authenticator
from agor.daemon.api.answers import (
    Answer,
    Receive,
    Scope,
    Send,
    encode,
    refuse_handshake,
    send_answer,
    taken_body,
)
from agor.daemon.api.gate import Gate, address_of
from agor.daemon.api.live import LiveFeeds
from agor.daemon.api.pending_writes import PendingWrite, PendingWrites
from agor.daemon.api.problems import (
    internal_error,
    method_not_allowed,
    problem_of,
    unsupported_media_type,
)
from agor.daemon.api.reading import collect_body, is_json, read_headers, too_large
from agor.daemon.api.route import WEBSOCKET, Connection, Reply, Request, Route
from agor.daemon.api.routes import ROUTES
from agor.daemon.api.services import Services
from agor.daemon.api.settings import ApiSettings
from agor.daemon.api.table import Found, Table
from agor.daemon.services import access
from agor.daemon.services.principal import Principal
from agor.errors import AgorError, NotFound, StoreDamaged, StoreUnavailable
from agor.protocol.validation import quoted

log = structlog.get_logger("agor.api")

#: The name of no route, in the metrics.
_NO_ROUTE = "-"
#: Methods that store nothing.
_READING = frozenset(("GET", "HEAD"))


class App:
    """The ASGI application."""

    def __init__(
        self, services: Services, authenticator: Authenticator, settings: ApiSettings
    ) -> None:
        self.settings = settings
        self._services = services
        self._authenticator = authenticator
        self._gate = Gate(settings.host, settings.allowed_hosts, settings.https_proxy)
        self._table = Table(ROUTES)
        self.feeds = LiveFeeds(settings, services.metrics)
        self._writes = PendingWrites(services.stall, self._refuse)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or one WebSocket for as long as it lasts."""
        began = time.perf_counter()
        handshake = scope["type"] == "websocket"
        method = WEBSOCKET if handshake else scope["method"]
        path = scope["raw_path"].decode("ascii")
        route = None
        try:
            headers = read_headers(scope["headers"])
            self._gate.check(headers, scope.get("server"))
            found = self._find(path)
            route = found.place.routes.get(method)
            if route is None:
                answer: Answer | None = _other_method(method, found)
            else:
                request = self._let_in(route, found, headers, scope)
                if route.stream is not None:
                    connection = Connection(scope, receive, send, self.feeds)
                    await route.stream(request, connection)
                    return
                answer = await self._answer(route, request, scope, receive, send, began)
        except ClientDisconnected:
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
            answer = _answer_to(error, route)
        if answer is None:
            return
        if handshake:
            await refuse_handshake(answer, send)
        else:
            await send_answer(answer, scope, send)
        self._count(route, answer.status, time.perf_counter() - began)

    def _find(self, path: str) -> Found:
        found = self._table.find(path)
        if found is None:
            raise NotFound(f"there is no {quoted(path)} here", hint="GET /docs lists what is.")
        return found

    def _let_in(self, route: Route, found: Found, headers: Any, scope: Scope) -> Request[Any]:
        """Find out who asks, and read what they ask in the address."""
        address = address_of(scope, headers, self.settings.https_proxy)
        https = self._gate.is_https(headers)
        principal = self._who(route, headers, address, https)
        query = route.read_query(scope["query_string"])
        return Request(
            self._services, self._table, found.ids, headers, principal, query,
            address=address, https=https, query=query,
        )  # fmt: skip

    def _who(self, route: Route, headers: Any, address: str, https: bool) -> Principal | None:
        """Tell who asks, if they may ask this at all; None where strangers may."""
        if route.action is None:
            return None
        principal = self._authenticator.authenticate(route.method, headers, address, https)
        access.check_role(principal, route.action)
        return principal

    async def _answer(
        self,
        route: Route,
        request: Request[Any],
        scope: Scope,
        receive: Receive,
        send: Send,
        began: float,
    ) -> Answer | None:
        """Read the body, and have the handler do its work. None if the client went away."""
        if route.body is not None:
            answer = await self._read(route, request, scope, receive)
            if answer is not None or request.form is None:
                return answer
        if route.method in _READING:
            return await _handle_once(route, request)
        return await self._write(PendingWrite(route, request, scope, send, began))

    async def _write(self, write: PendingWrite) -> Answer | None:
        """Have a handler store something. None if the client has got an error meanwhile."""
        self._writes.add(write)
        try:
            answer: Answer | None = await _handle_once(write.route, write.request)
        except Exception as error:
            if write.refusal is None:
                raise
            log.info("late_answer", error=type(error).__name__)
        finally:
            self._writes.discard(write)
        if write.refusal is None:
            return answer
        # The server takes a request that returns before anything is sent for a failed one.
        await write.refusal
        return None

    async def _refuse(self, write: PendingWrite, stall: StoreUnavailable) -> None:
        error = StoreUnavailable(
            f"{stall.message}; it is not known whether this was stored",
            hint="Look before you repeat it: it may have been done."
            if write.request.receipt is None
            else "Repeat it with the same Idempotency-Key: it is not done twice.",
        )
        answer = _answer_to(error, write.route)
        await send_answer(answer, write.scope, write.send)
        self._count(write.route, answer.status, time.perf_counter() - write.began)

    async def _read(
        self, route: Route, request: Request[Any], scope: Scope, receive: Receive
    ) -> Answer | None:
        """Read the body into the request's form; None is the form of a client that went away."""
        assert route.body is not None
        said_nothing = route.body_optional and b"content-type" not in request.headers
        if not said_nothing and not is_json(request.headers):
            return unsupported_media_type()
        most = self.settings.max_body
        body = taken_body(scope)
        if body is None:
            body = await collect_body(receive, request.headers, most)
            if body is None:
                request.form = None
                return None
            # It may have come slowly: who was let in before it may not be let in any more.
            request.principal = self._who(route, request.headers, request.address, request.https)
        if len(body) > most:
            raise too_large(most)
        if said_nothing and body:
            return unsupported_media_type()
        request.form = route.read_body(body) if body or not said_nothing else route.body()
        return None

    def _count(self, route: Route | None, status: int, seconds: float) -> None:
        name = _NO_ROUTE if route is None else route.name
        self._services.metrics.requests.add(name, status, seconds)


async def _handle_once(route: Route, request: Request[Any]) -> Answer:
    """Have the handler do its work, unless it was done before under the same key."""
    key = idempotency.key_of(route, request.headers)
    if key is None:
        return await _handle(route, request)
    answer = await idempotency.begin(route, request, key)
    if answer is not None:
        return answer
    assert request.receipt is not None
    try:
        return await _handle(route, request)
    finally:
        request.receipt.release()


async def _handle(route: Route, request: Request[Any]) -> Answer:
    assert route.handler is not None
    result = await route.handler(request)
    status, headers = route.status, route.headers
    if type(result) is Reply:
        status, headers = result.status, [*headers, *result.headers]
        result = result.result
    if result is None:
        return Answer(status, headers=headers)
    body = result if type(result) is bytes else encode(result)
    return Answer(status, body, route.media, headers)


def _other_method(method: str, found: Found) -> Answer:
    """Answer to a method that the path has no route for."""
    allow = found.place.allow
    if method == "OPTIONS":
        return Answer(204, headers=[(b"allow", allow)])
    if method == WEBSOCKET:
        raise NotFound("there is no WebSocket here", hint="GET /docs lists what is.")
    return method_not_allowed(method, allow)


def _answer_to(error: Exception, route: Route | None) -> Answer:
    """Tell an error, as far as the client may know of it; the rest goes to the log."""
    answer = problem_of(error) if isinstance(error, AgorError) else None
    if answer is None or answer.status == 500:
        log.error("request_failed", route=route and route.name, exc_info=error)
        # Damage is no bug, and whoever asks can do something about it.
        return answer if answer and isinstance(error, StoreDamaged) else internal_error()
    return answer

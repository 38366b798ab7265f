"""The scripted model server: stands in for a provider, on this machine only.

async with ModelServer() as server:
    …                               # an agent whose base URL is server.url
    request = await server.wait_for(1)
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

from agor.errors import BadInput, SocketInUse, SocketUnusable
from agor.testing.model.answering import Answer, Answering, Question
from agor.testing.model.connection import DEFAULT_BOUNDS, Bounds, Connection
from agor.testing.model.records import Outcome, Records, Request
from agor.testing.model.script import Script, Turn, read_script

#: Seconds to wait for a request; generous, for agents that start slowly on a busy machine.
PATIENCE = 60.0
#: How long the server is willing to wait for its connections when it ends.
_MOMENT = 5.0


class ModelServer:
    """A server to be used as an async context manager.

    `script` is played to conversations that bring none along. With `keys`, whoever has none of them
    is refused. `on_request` is told of each request as it comes.
    """

    def __init__(
        self,
        *,
        script: Any = None,
        keys: Collection[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        models: Sequence[str] = ("scripted",),
        on_request: Callable[[Request], None] | None = None,
        bounds: Bounds = DEFAULT_BOUNDS,
        max_connections: int = 256,
    ) -> None:
        self._host = _loopback(host)
        self._port = port
        self._answering = Answering(script=_script(script), keys=keys, models=models)
        self._records = Records()
        self._on_request = on_request
        self._bounds = bounds
        self._max_connections = max_connections
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(self._accept, self._host, self._port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise SocketInUse(
                    f"port {self._port} is in use by another program",
                    hint="Take port 0, which means any that is free.",
                ) from None
            raise SocketUnusable(
                f"cannot listen on port {self._port} of {self._host}: {error.strerror}"
            ) from None
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        if self._connections:
            await asyncio.wait(self._connections, timeout=_MOMENT)

    @property
    def url(self) -> str:
        """Where it is: the base URL for Anthropic and Gemini. OpenAI's has `/v1` behind it."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    @property
    def requests(self) -> list[Request]:
        """The last requests, oldest first."""
        return self._records.all

    async def wait_for(
        self,
        n: int,
        where: Callable[[Request], bool] = lambda _: True,
        timeout: float = PATIENCE,
    ) -> Request:
        """Wait for the n-th request, from 1, of those for which `where` holds."""
        async with asyncio.timeout(timeout):
            return await self._records.nth(n, where)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= self._max_connections:
            writer.transport.abort()
            return
        connection = Connection(reader, writer, self._answer, self._bounds)
        task = asyncio.create_task(connection.serve())
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _answer(
        self, question: Question
    ) -> tuple[Answer, Callable[[Outcome], Awaitable[None]]]:
        now = time.time()
        request = await self._records.add(question, now)
        if self._on_request is not None:
            self._on_request(request)
        answer = self._answering.answer(question, number=request.number, now=int(now))
        request.status = answer.status
        return answer, partial(self._records.settle, request)


def _script(given: Any) -> Script | None:
    """Take a script as it is written in JSON, or one that was read already."""
    is_read = isinstance(given, tuple) and all(isinstance(turn, Turn) for turn in given)
    return given if given is None or is_read else read_script(given)


def _loopback(host: str) -> str:
    """Take no address that others could reach: anybody may ask this server anything."""
    if host.lower() == "localhost":
        return "127.0.0.1"
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise BadInput(
            f"the model server listens on loopback only, not on {host!r}",
            hint="Leave the address out, or take 127.0.0.1 or ::1.",
        )
    return host

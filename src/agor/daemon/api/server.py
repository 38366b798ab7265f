"""Serves the application: uvicorn inside the daemon's own loop, on a socket that we bind.

The daemon owns the signals, the log and the order in which things end; uvicorn gets none of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import resource
import socket
from dataclasses import replace
from functools import partial
from typing import Any, cast

import structlog
import uvicorn

from agor.daemon.api.app import App
from agor.daemon.api.gate import check_host
from agor.daemon.api.http_protocol import HttpProtocol
from agor.daemon.api.websocket_protocol import WebSocketProtocol
from agor.errors import SocketInUse, SocketUnusable

log = structlog.get_logger("agor.api")

_BACKLOG = 1024
#: Descriptors that are kept for the rest of the daemon: the database, executors, logs.
_SPARE_DESCRIPTORS = 256
#: Connections that are taken even where descriptors are scarce.
_FEWEST = 16
#: Seconds for what was aborted to be gone.
_MOMENT = 5.0


class _ToOurLog(logging.Handler):
    """Passes what uvicorn has to say to the daemon's own log: errors only."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log it."""
        log.error("server", said=record.getMessage(), exc_info=record.exc_info or None)


class ApiServer:
    """One listening socket and all connections that came through it."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._server: uvicorn.Server | None = None
        self._ticking: asyncio.Task[None] | None = None

    async def start(
        self, host: str, port: int, *, preferred: int = 0, can_sign_in: bool = False
    ) -> int:
        """Listen, and answer from now on. Return the port.

        Port 0 is any free one: `preferred`, if that is free. Beyond this machine only if there is
        somebody who could sign in.
        """
        check_host(host, can_sign_in=can_sign_in)
        listener = bind(host, port) if port else bind_any(host, preferred)
        config = _config(self._app)
        server = uvicorn.Server(config)
        try:
            # What its `serve` does, but for the signals, which are the daemon's.
            config.load()
            server.lifespan = config.lifespan_class(config)
            await server.startup(sockets=[listener])
        except BaseException:
            listener.close()
            raise
        self._server = server
        self._ticking = asyncio.create_task(server.main_loop())
        return cast("int", listener.getsockname()[1])

    async def stop(self, grace: float) -> None:
        """Tell the feeds' clients, let requests under way end, and hang up. Bounded by `grace`."""
        server, self._server = self._server, None
        if server is None or self._ticking is None:
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace
        for listening in server.servers:
            listening.close()
        await self._app.feeds.close(grace / 2)
        # uvicorn says `int`, and hands it to asyncio, which takes any number.
        server.config.timeout_graceful_shutdown = cast("int", max(0.0, deadline - loop.time()))
        await server.shutdown()
        self._ticking.cancel()
        connections = cast("set[Any]", server.server_state.connections)
        for connection in list(connections):
            connection.transport.abort()
        await asyncio.wait((*server.server_state.tasks, self._ticking), timeout=_MOMENT)


def bind_any(host: str, preferred: int) -> socket.socket:
    """Bind the preferred port if that is possible, else any free one."""
    if preferred:
        with contextlib.suppress(SocketInUse, SocketUnusable):
            return bind(host, preferred)
    return bind(host, 0)


def bind(host: str, port: int) -> socket.socket:
    """Bind the daemon's socket; what is in the way is told in words."""
    address = "127.0.0.1" if host.lower() == "localhost" else host
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        # Here, and not when uvicorn comes to it: two that bound the same port are told apart now.
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise SocketInUse(
                f"port {port} of {host} is in use by another program",
                hint=f"See which one: ss -ltnp sport = :{port}. To use another port: "
                "agor config set daemon.port 3031, or unset it to use any free port.",
            ) from None
        raise SocketUnusable(
            f"cannot listen on port {port} of {host}: {error.strerror}",
            hint="Ports below 1024 are for root; agor config set daemon.port takes another.",
        ) from None
    return listener


def _config(app: App) -> uvicorn.Config:
    settings = replace(app.settings, max_connections=_room(app.settings.max_connections))
    _take_over_log()
    return uvicorn.Config(
        cast("Any", app),
        http=cast("Any", partial(HttpProtocol, settings)),
        ws=cast("Any", partial(WebSocketProtocol, settings)),
        ws_max_size=settings.max_message,
        ws_ping_interval=settings.ping_interval,
        ws_ping_timeout=settings.ping_timeout,
        ws_per_message_deflate=False,
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=settings.keep_alive,
    )


def _room(most: int) -> int:
    """Bound the connections by the descriptors there are."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return most
    return min(most, max(_FEWEST, soft - _SPARE_DESCRIPTORS))


def _take_over_log() -> None:
    for name in ("uvicorn.error", "uvicorn.asgi"):
        logger = logging.getLogger(name)
        # Below errors it would show heads of requests, and there the tokens are.
        logger.setLevel(logging.ERROR)
        logger.propagate = False
        logger.handlers = [_ToOurLog()]

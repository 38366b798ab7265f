"""The bounds of the interface. Every wait and every buffer of it has one here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ApiSettings:
    """Times are seconds, sizes are bytes."""

    #: The name this daemon is reached by, beside those that every machine has for itself.
    host: str = "127.0.0.1"
    #: Further names that it may be called by.
    allowed_hosts: tuple[str, ...] = ()
    #: Whether a proxy in front of it speaks HTTPS, and says who asks.
    https_proxy: bool = False
    #: The longest body of a request.
    max_body: int = 2 * 1024 * 1024
    #: The longest head of a request.
    max_head: int = 32 * 1024
    #: From a request's first byte to its last.
    request_timeout: float = 30.0
    #: How long a connection may be idle between two requests.
    keep_alive: int = 30
    #: Connections at once, those of the feed included.
    max_connections: int = 4096
    #: A client of the feed that takes no byte for so long is cut off.
    stall_timeout: float = 30.0
    #: A client of a terminal that takes no byte for so long is cut off: others wait for it.
    terminal_stall_timeout: float = 10.0
    #: How long one that is told to go is given to read that.
    farewell_timeout: float = 5.0
    #: Between two signs of life on a quiet feed.
    heartbeat: float = 15.0
    ping_interval: float = 20.0
    #: More than the heartbeat: a ping may lie behind much that is still to be read.
    ping_timeout: float = 60.0
    #: The longest message a client may send on a WebSocket; none is expected but by terminals,
    #: which have a bound of their own.
    max_message: int = 4096

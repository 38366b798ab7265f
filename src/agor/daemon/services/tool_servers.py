"""The MCP servers of a session: checked when they are set, and given to its agent. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from agor.daemon.store.rows import SessionRow
from agor.errors import Unprocessable
from agor.protocol.mcp import McpServer
from agor.protocol.validation import quoted

_decode = msgspec.json.Decoder(dict[str, McpServer]).decode


def read(row: SessionRow) -> dict[str, McpServer]:
    """Give the servers of a session."""
    return {} if row.mcp_servers is None else _decode(row.mcp_servers)


def write(servers: Mapping[str, McpServer]) -> bytes | None:
    """Spell servers as they are stored; refuses what could never be started or reached."""
    for name, server in servers.items():
        problem = server.problem()
        if problem is not None:
            raise Unprocessable(f"mcp_servers.{name}: {problem}")
        if server.url is not None and not server.url.startswith(("http://", "https://")):
            raise Unprocessable(f"mcp_servers.{name}.url: {quoted(server.url)} is no address")
    return msgspec.json.encode(dict(servers)) if servers else None


def credentials(row: SessionRow) -> set[str]:
    """Name the credentials that a session's servers need."""
    return {name for server in read(row).values() for name in server.credentials}

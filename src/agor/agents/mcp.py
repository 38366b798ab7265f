"""Puts credentials into the settings of MCP servers, when the agent that needs them starts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from agor.protocol.mcp import REFERENCE, McpServer
from agor.protocol.methods import GetApiKeyResult


async def resolve(
    servers: Mapping[str, McpServer], fetch_key: Callable[..., Awaitable[GetApiKeyResult]]
) -> dict[str, McpServer]:
    """Replace every `${NAME}` by the credential of that name."""
    names = {name for server in servers.values() for name in server.credentials}
    keys = {name: (await fetch_key(name)).api_key for name in sorted(names)}

    def filled(values: dict[str, str]) -> dict[str, str]:
        return {
            name: REFERENCE.sub(lambda found: keys[found[1]], value)
            for name, value in values.items()
        }

    return {
        name: msgspec.structs.replace(
            server, env=filled(server.env), headers=filled(server.headers)
        )
        for name, server in servers.items()
    }

"""A peer of the wire group: the JSON-RPC connection of the package agent-client-protocol.

Its `Connection` with a plain method handler: none of the protocol's own models are in the way.

Usage: python acp_server.py SOCKET_PATH
"""
# The package lives in the peers' own environment, where a type checker does not look.
# mypy: disable-error-code="import-not-found"

import asyncio
import sys
import time
from typing import Any

from acp.connection import Connection

FIRST_SEQUENCE = 1_000_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Client:
    """One client's connection and what arrived on it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.events = 0
        self.connection = Connection(self.handle, writer, reader, listening=False)

    async def handle(
        self, method: str, params: Any, is_notification: bool
    ) -> dict[str, Any] | None:
        match method:
            case "report_message" if is_notification:
                self.events += 1
                return None
            case "ping":
                return {"pong": True, "timestamp": now_ms()}
            case "count":
                return {"count": self.events}
            case "emit":
                return await self.emit(params["count"])
        raise ValueError(f"unknown method {method}")

    async def emit(self, count: int) -> dict[str, Any]:
        for sequence in range(FIRST_SEQUENCE, FIRST_SEQUENCE + count):
            event = {
                "session_token": "s",
                "task_id": "t",
                "sequence": sequence,
                "timestamp": now_ms(),
                "event_type": "block_delta",
                "event_data": {"id": "b1", "text": "xxxx"},
            }
            await self.connection.send_notification("report_message", event)
        return {"count": count}


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one client until it goes."""
    client = Client(reader, writer)
    await client.connection.main_loop()
    await client.connection.close()
    writer.close()


async def main(path: str) -> None:
    server = await asyncio.start_unix_server(serve, path)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

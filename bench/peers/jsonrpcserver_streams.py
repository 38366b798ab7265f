"""A peer of the wire group: the package jsonrpcserver behind asyncio streams.

The package turns a request's text into an answer's text and knows nothing of sending, so there is
no `emit` here.

Usage: python jsonrpcserver_streams.py SOCKET_PATH
"""
# The package lives in the peers' own environment, where a type checker does not look.
# mypy: disable-error-code="import-not-found"

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from jsonrpcserver import Result, Success, async_dispatch


@dataclass
class Client:
    """What arrived on one client's connection."""

    events: int = 0


async def ping(_client: Client) -> Result:
    return Success({"pong": True, "timestamp": time.time_ns() // 1_000_000})


async def count(client: Client) -> Result:
    return Success({"count": client.events})


async def report_message(client: Client, **_event: Any) -> Result:
    client.events += 1
    return Success()


METHODS = {"ping": ping, "count": count, "report_message": report_message}


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one client until it goes."""
    client = Client()
    compact = partial(json.dumps, separators=(",", ":"))
    while line := await reader.readline():
        answer = await async_dispatch(line.decode(), METHODS, context=client, serializer=compact)
        if answer:
            writer.write(answer.encode() + b"\n")
            await writer.drain()
    writer.close()


async def main(path: str) -> None:
    server = await asyncio.start_unix_server(serve, path)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

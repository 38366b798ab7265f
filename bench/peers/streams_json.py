"""A peer of the wire group: asyncio streams and the json module, one JSON object a line.

The usual way to write such a server in Python with nothing but the standard library.

Usage: python streams_json.py SOCKET_PATH
"""

import asyncio
import json
import sys
import time
from typing import Any

FIRST_SEQUENCE = 1_000_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def event(sequence: int) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "method": "report_message",
        "params": {
            "session_token": "s",
            "task_id": "t",
            "sequence": sequence,
            "timestamp": now_ms(),
            "event_type": "block_delta",
            "event_data": {"id": "b1", "text": "xxxx"},
        },
    }


async def emit(writer: asyncio.StreamWriter, count: int) -> dict[str, Any]:
    for sequence in range(FIRST_SEQUENCE, FIRST_SEQUENCE + count):
        writer.write(encode(event(sequence)))
        await writer.drain()
    return {"count": count}


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one client until it goes."""
    events = 0
    while line := await reader.readline():
        message = json.loads(line)
        result: dict[str, Any]
        match message["method"]:
            case "report_message":
                events += 1
                continue
            case "ping":
                result = {"pong": True, "timestamp": now_ms()}
            case "count":
                result = {"count": events}
            case "emit":
                result = await emit(writer, message["params"]["count"])
            case method:
                raise ValueError(f"unknown method {method}")
        writer.write(encode({"jsonrpc": "2.0", "id": message["id"], "result": result}))
        await writer.drain()
    writer.close()


async def main(path: str) -> None:
    server = await asyncio.start_unix_server(serve, path)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

"""A connection to an executor as bytes: for what a well-behaved daemon would not do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests.integration.daemon_side import Script, prompt_params
from tests.integration.processes import PATIENCE

Message = dict[str, Any]


def request(number: int | str, method: str, params: Any = None) -> bytes:
    """Make the line of a request."""
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}
    return json.dumps(message).encode() + b"\n"


def prompt(number: int | str, script: Script, task_id: str, **more: Any) -> bytes:
    """Make the line that starts a task."""
    params = msgspec.to_builtins(prompt_params(script, task_id, **more))
    return request(number, "execute_prompt", params)


def ack(task_id: str, sequence: int) -> bytes:
    """Make the line that acknowledges events."""
    params = {"task_id": task_id, "sequence": sequence}
    message = {"jsonrpc": "2.0", "method": "ack_messages", "params": params}
    return json.dumps(message).encode() + b"\n"


class Wire:
    """One connection, with blocking reads that give up after a while."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.settimeout(PATIENCE)
        self._lines = sock.makefile("rb")

    def send(self, data: bytes) -> None:
        """Write bytes as they are."""
        self.sock.sendall(data)

    def read(self) -> Message:
        """Read the next message."""
        line = self._lines.readline()
        assert line, "the connection has ended"
        message: Message = json.loads(line)
        return message

    def read_until(self, **members: Any) -> Message:
        """Read on to a message with these members."""
        while True:
            message = self.read()
            if all(message.get(name) == value for name, value in members.items()):
                return message

    def finish_writing(self) -> None:
        """Say no more, but go on listening, as `nc -N` does."""
        self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Hang up."""
        self._lines.close()
        self.sock.close()


@contextlib.contextmanager
def wire(path: Path) -> Iterator[Wire]:
    """Connect, and hang up at the end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(PATIENCE)
        sock.connect(str(path))
        connection = Wire(sock)
        try:
            yield connection
        finally:
            connection.close()


@contextlib.asynccontextmanager
async def streams(
    path: Path, limit: int
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect without blocking, and read ahead by no more than `limit` bytes or so."""
    reader, writer = await asyncio.open_unix_connection(path, limit=limit)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

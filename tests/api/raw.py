"""Requests as bytes, and answers as they came: for what no client library would send."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from tests.contract.waiting import soon


@dataclass
class RawAnswer:
    """An answer to a raw request."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class RawConnection:
    """A TCP connection to the daemon."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, port: int, limit: int = 2**16) -> RawConnection:
        return cls(*await soon(asyncio.open_connection("127.0.0.1", port, limit=limit)))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await soon(self.writer.drain())

    async def answer(self, *, head: bool = False) -> RawAnswer:
        """Read one whole answer."""
        lines = (await soon(self.reader.readuntil(b"\r\n\r\n"))).decode().split("\r\n")
        headers = {}
        for line in lines[1:-2]:
            name, _, value = line.partition(": ")
            headers[name.lower()] = value
        length = 0 if head else int(headers.get("content-length", 0))
        body = await soon(self.reader.readexactly(length))
        return RawAnswer(int(lines[0].split()[1]), headers, body)

    async def ended(self) -> bytes:
        """Wait until the other end hangs up; gives what it still sent."""
        try:
            return await soon(self.reader.read(-1))
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        self.writer.close()

    async def __aenter__(self) -> RawConnection:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def spelled(
    method: str, path: str, token: str | None = None, body: bytes | None = None, /, **headers: str
) -> bytes:
    """Spell a request."""
    lines = [f"{method} {path} HTTP/1.1"]
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named.setdefault("host", "127.0.0.1")
    if token is not None:
        named["authorization"] = f"Bearer {token}"
    if body is not None:
        named.setdefault("content-type", "application/json")
        named.setdefault("content-length", str(len(body)))
    lines += (f"{name}: {value}" for name, value in named.items())
    return "\r\n".join((*lines, "", "")).encode("latin-1") + (body or b"")

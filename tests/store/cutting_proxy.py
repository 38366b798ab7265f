"""Stands between a store and PostgreSQL, and cuts connections at a chosen word of the protocol."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, urlsplit

_SOCKET = ".s.PGSQL.5432"

#: What becomes of the next word: "swallow" cuts before the server hears it, "deliver" after it has
#: heard it and answered, "hang" leaves the server's end open, as a broken network does.
How = Literal["swallow", "deliver", "hang"]


@dataclass
class CuttingProxy:
    """A server's socket, as the store sees it."""

    folder: Path
    upstream: Path
    refusing: bool = False
    cut: tuple[bytes, How] | None = None
    was_cut: asyncio.Event = field(default_factory=asyncio.Event)
    #: While it is not set, connections are taken and stay, and nothing goes through them.
    flowing: asyncio.Event = field(default_factory=asyncio.Event)
    _kept: list[asyncio.StreamWriter] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"postgresql://agor@/postgres?host={self.folder}"

    async def serve(
        self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        if self.refusing:
            to_client.transport.abort()
            return
        from_server, to_server = await asyncio.open_unix_connection(str(self.upstream))
        back = asyncio.create_task(self._pump(from_server, to_client))
        try:
            while data := await from_client.read(65536):
                await self.flowing.wait()
                if self.cut is not None and self.cut[0] in data:
                    await self._cut(data, from_server, to_server, back)
                    return
                to_server.write(data)
                await to_server.drain()
        finally:
            back.cancel()
            to_client.transport.abort()
            if to_server not in self._kept:
                to_server.transport.abort()

    async def _cut(
        self,
        data: bytes,
        from_server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
        back: asyncio.Task[None],
    ) -> None:
        assert self.cut is not None
        how, self.cut = self.cut[1], None
        if how == "hang":
            self._kept.append(to_server)
        if how == "deliver":
            back.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await back
            to_server.write(data)
            await from_server.read(1)
        self.was_cut.set()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self.flowing.wait()
            writer.write(data)
            await writer.drain()
        writer.transport.abort()

    def close(self) -> None:
        for writer in self._kept:
            writer.transport.abort()


@contextlib.asynccontextmanager
async def cutting_proxy(folder: Path, url: str) -> AsyncIterator[CuttingProxy]:
    """Serve a proxy for the server of a URL."""
    host = parse_qs(urlsplit(url).query)["host"][0]
    proxy = CuttingProxy(folder, Path(host) / _SOCKET)
    proxy.flowing.set()
    server = await asyncio.start_unix_server(proxy.serve, str(folder / _SOCKET))
    try:
        yield proxy
    finally:
        server.close()
        proxy.close()

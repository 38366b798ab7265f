"""What the server was asked: kept for tests to look at, bounded, and without anybody's key."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from agor.testing.model.answering import Question

_SECRETS = ("authorization", "proxy-authorization", "x-api-key", "x-goog-api-key", "cookie")
_KEY_IN_QUERY = re.compile(r"(?<=[?&]key=)[^&]*")
#: Of a key that is shorter, the last four characters would give too much away.
_SHORT_KEY = 12

#: What became of a request: nothing yet, an answer, a cut; or the other end was gone before.
Outcome = Literal["answered", "cut", "abandoned"]


@dataclass(slots=True)
class Request:
    """A request, and what became of it."""

    #: From 1, over all connections.
    number: int
    #: Seconds since 1970.
    at: float
    method: str
    #: The path with its query. A key in it shows its last four characters only.
    target: str
    #: With names in lower case. Keys show their last four characters only.
    headers: Mapping[str, str]
    body: bytes
    status: int | None = None
    outcome: Outcome | None = None

    @property
    def path(self) -> str:
        """The path without its query."""
        return self.target.partition("?")[0]

    @property
    def json(self) -> Any:
        """The body, decoded; none if there is no JSON in it."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


class Records:
    """The last requests, at most `most` and at most `most_bytes` of bodies."""

    def __init__(self, most: int = 1000, most_bytes: int = 256 * 1024 * 1024) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._kept: deque[Request] = deque()
        self._bytes = 0
        self._changed = asyncio.Condition()
        #: How many there were.
        self.count = 0

    @property
    def all(self) -> list[Request]:
        """Those that are kept, oldest first."""
        return list(self._kept)

    async def add(self, question: Question, at: float) -> Request:
        """Keep another one."""
        self.count += 1
        request = Request(
            number=self.count,
            at=at,
            method=question.method,
            target=_KEY_IN_QUERY.sub(lambda found: redact(found[0]), question.target),
            headers={
                name: redact(value) if name in _SECRETS else value
                for name, value in question.headers.items()
            },
            body=question.body,
        )
        self._kept.append(request)
        self._bytes += len(request.body)
        while len(self._kept) > self._most or (
            self._bytes > self._most_bytes and len(self._kept) > 1
        ):
            self._bytes -= len(self._kept.popleft().body)
        await self._tell()
        return request

    async def settle(self, request: Request, outcome: Outcome) -> None:
        """Say what became of it."""
        request.outcome = outcome
        await self._tell()

    async def nth(self, n: int, where: Callable[[Request], bool]) -> Request:
        """Wait for the n-th, from 1, of those kept for which `where` holds."""
        async with self._changed:
            while True:
                found = [request for request in self._kept if where(request)]
                if len(found) >= n:
                    return found[n - 1]
                await self._changed.wait()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def redact(secret: str) -> str:
    """Leave what tells keys apart and gives none away."""
    scheme, space, key = secret.rpartition(" ")
    if scheme.lower() not in ("", "bearer") or len(key) < _SHORT_KEY:
        return "…"
    return f"{scheme}{space}…{key[-4:]}"

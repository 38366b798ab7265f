"""What a peer serves: method name → how to read its params and whom to call.

A handler is a plain function. What it returns is the result, answered at once and without a task;
if it has to wait it returns a coroutine instead, and only then a task is made for it, or a future.
Raw JSON in a result is written as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Raw

from agor.errors import InvalidParams
from agor.protocol.validation import Method, Notice, may_hold_raw, reader_of

P = TypeVar("P")
R = TypeVar("R")


#: One served method: how to read its params, what to do with those that `decode` refuses, whom to
#: call. A bare tuple: it is unpacked for every message.
Route = tuple[Callable[[Raw], Any], Callable[[Raw], Any], Callable[[Any], Any]]


@dataclass(frozen=True, slots=True)
class Stream(Generic[P]):
    """A notification of which there are many."""

    name: str
    take: Callable[[list[P]], None]
    #: What is in every line of it, and hardly in others.
    mark: bytes
    #: Reads a line of it in one pass, and refuses any other.
    read_line: Callable[[bytes], Any]


class Routes(dict[str, Route]):
    """The table of one peer. It may be shared by many connections; it holds no state of theirs."""

    def __init__(self) -> None:
        super().__init__()
        #: Those that take all that came together of one notification.
        self.streams: dict[str, Stream[Any]] = {}
        #: Whether a result may hold raw JSON, which somebody may have laid out over lines.
        self.raw_results = False

    def on(
        self,
        method: Method[P, R],
        handle: Callable[[P], R | Coroutine[Any, Any, R] | asyncio.Future[R]],
    ) -> None:
        """Serve a method.

        A handler that begins something at once and then waits returns a future: that one is
        cancelled with the request, while a coroutine may be dropped before its first step.
        """
        reader = reader_of(method.params)
        self._add(method.name, (reader.decode, reader.repair, handle))
        self.raw_results = self.raw_results or may_hold_raw(method.result)

    def on_notice(self, notice: Notice[P], handle: Callable[[P], None]) -> None:
        """Take a notification. Handlers run in the order of arrival."""
        reader = reader_of(notice.params)
        self._add(notice.name, (reader.decode, reader.repair, handle))

    def on_stream(
        self,
        notice: Notice[P],
        take: Callable[[list[P]], None],
        refuse: Callable[[InvalidParams], None] | None = None,
    ) -> None:
        """Take a notification of which there are many: what came together is handed over together.

        `refuse` is told, in its place, of one that has not the form of its params.
        """
        reader = reader_of(notice.params)

        def repair(raw: Raw) -> P:
            try:
                return reader.repair(raw)
            except InvalidParams as error:
                if refuse is not None:
                    refuse(error)
                raise

        self._add(notice.name, (reader.decode, repair, lambda params: take([params])))
        mark = msgspec.json.encode(notice.name)
        self.streams[notice.name] = Stream(notice.name, take, mark, _line_reader(notice))

    def _add(self, name: str, route: Route) -> None:
        if name in self:
            raise ValueError(f"{name} is served already")
        self[name] = route


@cache
def _line_reader(notice: Notice[Any]) -> Callable[[bytes], Any]:
    """Make what reads a whole line of a notification; with an `id` it would be none."""
    members = [
        ("jsonrpc", Literal["2.0"]),
        ("method", Literal[notice.name]),
        ("params", notice.params),
    ]
    form = msgspec.defstruct("Line", members, gc=False, forbid_unknown_fields=True)
    return msgspec.json.Decoder(form).decode

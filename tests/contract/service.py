"""What the peers of these tests serve: handlers that answer at once, wait, fail, or only listen."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Coroutine
from typing import Any

from msgspec import Raw, Struct

from agor.errors import AgorError
from agor.protocol.validation import Method, Notice
from agor.rpc import Routes


class Operands(Struct):
    minuend: int
    subtrahend: int


class Text(Struct):
    text: str


class Name(Struct):
    name: str


class Nothing(Struct):
    pass


SUBTRACT: Method[Operands, int] = Method("subtract", Operands, int)
SUM: Method[list[int], int] = Method("sum", list[int], int)
GET_DATA: Method[Nothing, list[Any]] = Method("get_data", Nothing, list[Any])
ECHO: Method[Text, Text] = Method("echo", Text, Text)
SLOW_ECHO: Method[Text, Text] = Method("slow_echo", Text, Text)
WAIT: Method[Name, str] = Method("wait", Name, str)
GIVE: Method[Operands, str] = Method("give", Operands, str)
RAISE: Method[Name, None] = Method("raise", Name, type(None))
MISSING: Method[Nothing, int] = Method("there_is_no_such_method", Nothing, int)
NOTE: Notice[Text] = Notice("note", Text)
LAID_OUT: Method[Text, Any] = Method("laid_out", Text, dict)
PASSED_ON: Notice[Raw] = Notice("passed_on", Raw)

#: Notifications that the examples of the specification send.
HEARD = ("update", "notify_hello", "notify_sum")


class Refusal(AgorError):
    """An error of agor's own that is not about JSON-RPC."""

    code = "refusal"


class Service:
    """One side's handlers, and what they have seen."""

    def __init__(self) -> None:
        self.routes = Routes()
        self.notes: list[str] = []
        self.heard: list[tuple[str, list[int]]] = []
        self.passed_on: list[bytes] = []
        #: How many of them came together.
        self.runs: list[int] = []
        #: How each `wait` ends; a test sets the result or the exception.
        self.gates: dict[str, asyncio.Future[str]] = {}
        self.started: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.cancelled: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        #: What `raise` raises.
        self.errors: dict[str, Exception] = {}
        self._serve()

    def _serve(self) -> None:
        routes = self.routes
        routes.on(SUBTRACT, lambda params: params.minuend - params.subtrahend)
        routes.on(SUM, sum)
        routes.on(GET_DATA, lambda _: ["hello", 5])
        routes.on(ECHO, lambda params: params)
        routes.on(SLOW_ECHO, self._echo_later)
        routes.on(WAIT, self._wait)
        routes.on(GIVE, lambda params: chr(params.minuend) * params.subtrahend)
        routes.on(RAISE, self._raise)
        routes.on(LAID_OUT, lambda params: Raw(params.text.encode()))
        routes.on_notice(NOTE, lambda params: self.notes.append(params.text))
        routes.on_stream(PASSED_ON, self._pass_on)
        for name in HEARD:
            routes.on_notice(Notice(name, list[int]), self._hear(name))

    def open_gate(self, name: str) -> asyncio.Future[str]:
        """Get the future that ends this `wait`, whether it has begun or not."""
        if name not in self.gates:
            self.gates[name] = asyncio.get_running_loop().create_future()
        return self.gates[name]

    @staticmethod
    async def _echo_later(params: Text) -> Text:
        await asyncio.sleep(0.001)
        return params

    def _wait(self, params: Name) -> Coroutine[Any, Any, str]:
        return self._wait_for(params.name)

    async def _wait_for(self, name: str) -> str:
        self.started[name].set()
        try:
            return await asyncio.shield(self.open_gate(name))
        except asyncio.CancelledError:
            self.cancelled[name].set()
            raise

    def _raise(self, params: Name) -> None:
        raise self.errors[params.name]

    def _pass_on(self, run: list[Raw]) -> None:
        self.runs.append(len(run))
        params = [bytes(each) for each in run]
        if b'{"break": true}' in params:
            raise RuntimeError("asked to break")
        self.passed_on += params

    def _hear(self, name: str):
        return lambda params: self.heard.append((name, params))

"""Faults at a chosen moment: a gate before a store's writes, and calls that fail once.

    gate = Gate(desk.daemon.store)
    gate.hold("'running'")        # or gate.refuse(…)
    await soon(gate.reached.wait())
    gate.lift()

A gate knows a write by words in its statements or events. As the store promises, cancelling whoever
commits takes nothing back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

from agor.daemon.store.base import Store, Write
from agor.errors import StoreUnavailable

#: What a task's row has while it is in a state; the states of sessions are spelled alike.
DISPATCHING, RUNNING, STOPPING = "'dispatching'", "'running'", "'stopping'"


class Gate:
    """Stands before `store.commit`."""

    def __init__(self, store: Store) -> None:
        self._commit = store.commit
        self._words: tuple[str, ...] = ()
        self._how: Literal["pass", "hold", "refuse"] = "pass"
        self._error: type[Exception] = StoreUnavailable
        self._opened = asyncio.Event()
        self._at_work: set[asyncio.Task[None]] = set()
        #: Set when a write has come that is held or refused.
        self.reached = asyncio.Event()
        store.commit = self._arrive  # type: ignore[method-assign]

    def hold(self, *words: str) -> None:
        """Let writes with all these words wait until `lift`."""
        self._words, self._how = words, "hold"

    def refuse(self, *words: str, error: type[Exception] = StoreUnavailable) -> None:
        """Refuse writes with all these words; without words, all of them."""
        self._words, self._how, self._error = words, "refuse", error

    def lift(self) -> None:
        """Let everything pass, also what waits."""
        self._how = "pass"
        self._opened.set()

    async def settled(self) -> None:
        """Wait until all that has come is stored or refused, whoever still waits for it."""
        while self._at_work:
            await asyncio.wait(self._at_work)

    async def _arrive(self, write: Write) -> None:
        task = asyncio.create_task(self._pass(write))
        self._at_work.add(task)
        task.add_done_callback(self._at_work.discard)
        await asyncio.shield(task)

    async def _pass(self, write: Write) -> None:
        if self._how != "pass" and mentions(write, *self._words):
            self.reached.set()
            if self._how == "refuse":
                raise self._error("no space is left on the disk")
            await self._opened.wait()
        await self._commit(write)


def mentions(write: Write, *words: str) -> bool:
    """Tell whether a write has all these words, in its statements, their values, or its events."""
    spelled = [f"{statement.sql} {statement.values!r}" for statement in write.statements]
    spelled += [body.decode() for run in write.events for body in run.bodies]
    text = " ".join(spelled)
    return all(word in text for word in words)


def fail_once(
    owner: object,
    name: str,
    error: Exception,
    when: Callable[..., bool] = lambda *_: True,
) -> asyncio.Event:
    """Have the next call of a method fail, of those that fit; the event tells that it has."""
    real = getattr(owner, name)
    failed = asyncio.Event()

    async def call(*arguments: Any, **more: Any) -> Any:
        if failed.is_set() or not when(*arguments):
            return await real(*arguments, **more)
        failed.set()
        raise error

    setattr(owner, name, call)
    return failed

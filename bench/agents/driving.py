"""What drives an agent directly: a process that takes prompts and tells how long each took.

A line of JSON each way. The clock runs in this process, from before the prompt is put, so nothing
of the way to us is in the figures. The first prompt starts the agent.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Given:
    """What the command line says."""

    workspace: str
    base_url: str
    key: str
    model: str


class Direct(Protocol):
    """A conversation with an agent."""

    async def prompt(self, text: str, on_text: Callable[[], None]) -> None:
        """Put a prompt and follow it to its end; `on_text` is called with every piece of text."""

    async def close(self) -> None:
        """End the agent."""


def drive(begin: Callable[[Given], Direct]) -> None:
    """Serve prompts until there are no more."""
    asyncio.run(_drive(begin))


async def _drive(begin: Callable[[Given], Direct]) -> None:
    direct = begin(Given(*sys.argv[1:]))
    print(json.dumps("ready"), flush=True)
    try:
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await _measure(direct, json.loads(line))), flush=True)
    finally:
        await direct.close()


async def _measure(direct: Direct, text: str) -> dict[str, float]:
    first = 0.0

    def on_text() -> None:
        nonlocal first
        first = first or time.perf_counter()

    began = time.perf_counter()
    await direct.prompt(text, on_text)
    ended = time.perf_counter()
    return {"first_ms": (first - began) * 1000, "total_ms": (ended - began) * 1000}

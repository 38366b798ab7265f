"""The product's own command with what a measurement needs from inside, and nothing else changed.

- SIGUSR1 runs a full collection, in whatever was forked as well: memory is compared after one.
- The agent `metronome` tells one event every few milliseconds, with the time it was made.
"""

import asyncio
import gc
import signal
import sys
import time

from agor.agents.base import Agent
from agor.agents.registry import AGENTS
from agor.agents.turn import Turn
from agor.executor.main import main
from agor.protocol.methods import AgentInfo


class Metronome(Agent):
    """Tells the time at the pace its prompt asks for, until it is stopped."""

    name = "metronome"

    @classmethod
    def describe(cls) -> AgentInfo:
        return AgentInfo(name=cls.name, available=True)

    async def run(self, turn: Turn) -> None:
        step = int(turn.params.prompt) / 1000
        block = await turn.start_block("text")
        due = time.monotonic()
        while True:
            due += step
            await asyncio.sleep(due - time.monotonic())
            await block.add(f"@{time.monotonic_ns()}@")


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, lambda *_: gc.collect() and None)
    AGENTS[Metronome.name] = Metronome
    sys.exit(main())

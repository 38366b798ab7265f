"""Prompts that come at once, each in a new session, so each needs an executor of its own.

Measured through the daemon's API, from the first request to the end of the last task. The agent
takes as long as a very fast model would; what comes on top is ours.
"""

import asyncio
import json
import statistics
import time
from pathlib import Path

from agor.client import Client
from agor.home import Home
from bench.agents.ours import ENDED, daemon
from bench.results import BenchError
from bench.spawn.pooled import IMPORTED

ONE, EIGHT, SIXTEEN = "prompt_alone", "prompts_8_at_once", "prompts_16_at_once"
COUNTS = {ONE: 1, EIGHT: 8, SIXTEEN: 16}
DONE = "all_done_ms"

#: Milliseconds that the agent takes for its answer.
MODEL_MS = 250
#: Seconds after which executors have ended and spares are there again.
SETTLE = 3.0
SCRIPT = json.dumps([{"delay_ms": MODEL_MS}, {"text": "done"}])


def at_once(folder: Path, turns: int) -> dict[str, dict[str, float]]:
    """Median milliseconds until all are done, for each number of prompts."""
    with daemon(folder, {"AGOR_EXECUTION__MAX_EXECUTORS": "20"}):
        return asyncio.run(_measure(Home(folder / "agor"), turns))


async def _measure(home: Home, turns: int) -> dict[str, dict[str, float]]:
    times: dict[str, list[float]] = {}
    async with Client.local(home) as client:
        # It starts the launcher, and then the one with the agents' libraries.
        await _burst(client, 1)
        await asyncio.sleep(IMPORTED)
        for _ in range(turns):
            for name, count in COUNTS.items():
                times.setdefault(name, []).append(await _burst(client, count))
                await asyncio.sleep(SETTLE)
    return {name: {DONE: statistics.median(taken)} for name, taken in times.items()}


async def _burst(client: Client, count: int) -> float:
    sessions = [await client.create_session("scripted", "/") for _ in range(count)]
    began = time.perf_counter()
    await asyncio.gather(*(_prompt(client, each.session_id) for each in sessions))
    took = time.perf_counter() - began
    for each in sessions:
        await client.delete_session(each.session_id)
    return took * 1000


async def _prompt(client: Client, session_id: str) -> None:
    await client.prompt(session_id, SCRIPT)
    async for event in client.follow(session_id):
        if event.type == "task" and event.data["status"] in ENDED:
            if event.data["status"] != "completed":
                raise BenchError(f"the task ended badly: {event.data}")
            return

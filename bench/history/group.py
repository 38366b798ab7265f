"""The history group: a session of a million events, against one of five thousand.

Nothing that a person waits for may depend on how much was ever said: the start, opening a session,
a page of it, going on with it.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from agor.config import load
from agor.daemon.main import Daemon
from agor.daemon.services.line import Entry
from agor.daemon.services.principal import Principal
from agor.home import Home
from bench.history.past import write_past
from bench.results import OURS, Goal, GroupResult, Options, Samples, medians

#: Events of the long and of the short session.
LONG, SHORT = 1_000_000, 5_000
QUICK_LONG = 20_000
#: Each is done so often in a round; the median counts.
TURNS = 7

PEER = "short_history"
METRICS = ("start_ms", "open_ms", "newest_page_ms", "oldest_events_ms", "tail_ms", "append_ms")
GOALS = [Goal(f"history.{name}", name, PEER, "<=", 2.0) for name in METRICS]


def run(options: Options) -> GroupResult:
    samples: dict[str, list[dict[str, float]]] = {}
    counts = {OURS: QUICK_LONG if options.quick else LONG, PEER: SHORT}
    with tempfile.TemporaryDirectory(prefix="agor-bench-") as folder:
        homes = {name: Home(Path(folder, name)) for name in counts}
        sessions = {name: uvloop.run(_prepare(homes[name], counts[name])) for name in counts}
        for number in range(1, options.rounds + 1):
            print(f"history: round {number} of {options.rounds}", file=sys.stderr)
            for name, home in homes.items():
                figures = uvloop.run(_measure(home, sessions[name], counts[name]))
                samples.setdefault(name, []).append(figures)
    verdicts = [goal.judge(samples, {}) for goal in GOALS]
    return GroupResult(_table(samples, counts), verdicts, samples, {})


async def _prepare(home: Home, count: int) -> str:
    home.prepare()
    daemon = Daemon(load(home.folder, {}), home)
    async with daemon.working() as who:
        return await write_past(daemon, who, count)


async def _measure(home: Home, session_id: str, count: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in METRICS}
    for _ in range(TURNS):
        daemon = Daemon(load(home.folder, {}), home)
        began = time.perf_counter()
        async with daemon.working() as who:
            times["start_ms"].append((time.perf_counter() - began) * 1000)
            for name, work in _works(daemon, who, session_id, count):
                began = time.perf_counter()
                await work()
                times[name].append((time.perf_counter() - began) * 1000)
    return {name: statistics.median(taken) for name, taken in times.items()}


def _works(
    daemon: Daemon, who: Principal, session_id: str, count: int
) -> list[tuple[str, Callable[[], Awaitable[object]]]]:
    async def read(after: int) -> object:
        channel = await daemon.feed.open(who, session_id, after)
        return await channel.read(after)

    async def append() -> object:
        channel = await daemon.feed.open(who, session_id, 0)
        entry = Entry()
        entry.tell("log", None, {"level": "info", "message": "on"})
        return await asyncio.shield(channel.line.append(entry))

    return [
        ("open_ms", lambda: daemon.sessions.get(who, session_id)),
        ("newest_page_ms", lambda: daemon.conversations.page(who, session_id, None, 5)),
        ("oldest_events_ms", lambda: read(0)),
        ("tail_ms", lambda: read(count - 500)),
        ("append_ms", append),
    ]


def _table(samples: Samples, counts: dict[str, int]) -> str:
    found = {name: medians(samples, name) for name in samples}
    width = max(len(metric) for metric in METRICS)
    heads = [f"{counts[name]:,} events" for name in found]
    lines = [
        f"history: SQLite, {os.cpu_count()} cores, medians in ms",
        f"{'':{width}}  " + "  ".join(f"{head:>18}" for head in heads),
    ]
    for metric in METRICS:
        shown = "  ".join(f"{found[name][metric]:18.2f}" for name in found)
        lines.append(f"{metric:{width}}  {shown}")
    return "\n".join(lines)

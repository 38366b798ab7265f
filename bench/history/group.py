"""The history group: a daemon with a long past, against one with a short past.

Nothing that a person waits for may depend on how much was ever said: the start, the list of one's
sessions, opening a session, a page of it, going on with it, an answer that came in many pieces.
Replaying a feed costs the same for each event, however many there are.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import uvloop

from agor.config import load
from agor.daemon.main import Daemon
from agor.daemon.services.line import Entry
from agor.daemon.services.principal import Principal
from agor.home import Home
from bench.history.past import write_answer, write_past, write_sessions
from bench.results import OURS, Goal, GroupResult, Options, Samples, medians


class Past(NamedTuple):
    """How much there is."""

    #: Events of the session that is opened, read in pages, and gone on with.
    events: int
    #: Events of the feed that is replayed from its start to its end.
    replayed: int
    #: Sessions of one person.
    sessions: int
    #: Pieces in which an answer of `ANSWER` characters came.
    deltas: int


LONG = Past(events=1_000_000, replayed=100_000, sessions=20_000, deltas=500_000)
SHORT = Past(events=5_000, replayed=10_000, sessions=2_000, deltas=1_000)
QUICK_LONG = Past(events=20_000, replayed=20_000, sessions=4_000, deltas=10_000)
ANSWER = 1_000_000
#: Each is done so often in a round; the median counts.
TURNS = 7

PEER = "short_history"
METRICS = (
    "start_ms", "sessions_ms", "open_ms", "newest_page_ms", "oldest_events_ms", "tail_ms",
    "append_ms", "answer_ms", "replay_us_per_event",
)  # fmt: skip
GOALS = [Goal(f"history.{name}", name, PEER, "<=", 2.0) for name in METRICS]


class Measured(NamedTuple):
    """A home with a past, and where that is found."""

    home: Home
    past: Past
    session_id: str
    replayed: str
    answer: str


def run(options: Options) -> GroupResult:
    samples: dict[str, list[dict[str, float]]] = {}
    pasts = {OURS: QUICK_LONG if options.quick else LONG, PEER: SHORT}
    with tempfile.TemporaryDirectory(prefix="agor-bench-") as folder:
        homes = {
            name: uvloop.run(_prepare(Home(Path(folder, name)), past))
            for name, past in pasts.items()
        }
        for number in range(1, options.rounds + 1):
            print(f"history: round {number} of {options.rounds}", file=sys.stderr)
            for name, home in homes.items():
                figures = uvloop.run(_measure(home))
                samples.setdefault(name, []).append(figures)
    verdicts = [goal.judge(samples, {}) for goal in GOALS]
    return GroupResult(_table(samples, pasts), verdicts, samples, {})


async def _prepare(home: Home, past: Past) -> Measured:
    home.prepare()
    daemon = Daemon(load(home.folder, {}), home)
    async with daemon.working() as who:
        await write_sessions(daemon, who, past.sessions)
        return Measured(
            home,
            past,
            await write_past(daemon, who, past.events),
            await write_past(daemon, who, past.replayed),
            await write_answer(daemon, who, ANSWER, past.deltas),
        )


async def _measure(home: Measured) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in METRICS}
    for _ in range(TURNS):
        daemon = Daemon(load(home.home.folder, {}), home.home)
        began = time.perf_counter()
        async with daemon.working() as who:
            times["start_ms"].append((time.perf_counter() - began) * 1000)
            for name, work in _works(daemon, who, home):
                began = time.perf_counter()
                await work()
                times[name].append((time.perf_counter() - began) * 1000)
            began = time.perf_counter()
            events = await _replay(daemon, who, home.replayed)
            times["replay_us_per_event"].append((time.perf_counter() - began) * 1e6 / events)
    return {name: statistics.median(taken) for name, taken in times.items()}


async def _replay(daemon: Daemon, who: Principal, session_id: str) -> int:
    """Read a whole feed as a follower does that begins at its start; return how many events."""
    channel = await daemon.feed.open(who, session_id, 0)
    after = 0
    while chunk := await channel.read(after):
        after = chunk.last
    return after


def _works(
    daemon: Daemon, who: Principal, home: Measured
) -> list[tuple[str, Callable[[], Awaitable[object]]]]:
    session_id = home.session_id

    async def read(after: int) -> object:
        channel = await daemon.feed.open(who, session_id, after)
        return await channel.read(after)

    async def append() -> object:
        channel = await daemon.feed.open(who, session_id, 0)
        entry = Entry()
        entry.tell("log", None, {"level": "info", "message": "on"})
        return await asyncio.shield(channel.line.append(entry))

    return [
        ("sessions_ms", lambda: daemon.sessions.page(who, None, None, None, 50)),
        ("open_ms", lambda: daemon.sessions.get(who, session_id)),
        ("newest_page_ms", lambda: daemon.conversations.page(who, session_id, None, 5)),
        ("oldest_events_ms", lambda: read(0)),
        ("tail_ms", lambda: read(home.past.events - 500)),
        ("append_ms", append),
        ("answer_ms", lambda: daemon.conversations.page(who, home.answer, None, 5)),
    ]


def _table(samples: Samples, pasts: dict[str, Past]) -> str:
    found = {name: medians(samples, name) for name in samples}
    width = max(len(metric) for metric in METRICS)
    heads = [f"{pasts[name].events:,} events" for name in found]
    lines = [
        f"history: SQLite, {os.cpu_count()} cores, medians",
        f"{'':{width}}  " + "  ".join(f"{head:>18}" for head in heads),
    ]
    for metric in METRICS:
        shown = "  ".join(f"{found[name][metric]:18.2f}" for name in found)
        lines.append(f"{metric:{width}}  {shown}")
    return "\n".join(lines)

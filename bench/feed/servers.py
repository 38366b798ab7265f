"""The servers of the feed group: how each is started and how much each is asked to do.

A server is any command that takes a folder and a port as its last arguments and serves there what
the measures need of a daemon's interface: `POST /sessions`, `POST /sessions/{id}/prompt`, and
`/sessions/{id}/events` as a WebSocket. For a prompt it connects to the executor at FOLDER/N.sock.
If it stores events, it has them in FOLDER/events.db. Slower ones get smaller counts: enough for a
steady figure, so that a whole run stays within minutes.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.install import (
    INSTALLED,
    PEERS,
    UnavailableError,
    compiled,
    node_modules,
    peers_python,
    tool,
)
from bench.results import OURS

FEED = Path(__file__).parent
PACKAGES = PEERS / "feed"

OURS_STORED = "ours_stored"
C = "c"
NODE_BATCHED = "node_batched"
NODE_ROW_BY_ROW = "node_row_by_row"
NODE_WS = "node_ws"
STARLETTE = "starlette"
POST_PROTOTYPE = "post_prototype"

QUICK_DIVISOR = 20


@dataclass(frozen=True)
class Measure:
    """What the load generator plays, and the server's part in it."""

    name: str
    #: Server → how many events each executor reports, or how many requests are sent.
    counts: Mapping[str, int]
    executors: int = 1
    clients: int = 1
    #: Events of one write.
    burst: int = 1
    #: Whether servers store what passes through them.
    stores: bool = False

    def count(self, server: str, quick: bool) -> int:
        """How much this server is asked to do."""
        return max(self.counts[server] // (QUICK_DIVISOR if quick else 1), 4 * self.burst)


# Neighbours in this order are neighbours in time: the ones the goals compare stand together.
FLOW = Measure(
    "flow",
    {NODE_BATCHED: 5_000, OURS: 12_500, NODE_ROW_BY_ROW: 2_000, STARLETTE: 1_500},
    executors=32,
    burst=64,
    stores=True,
)
FAN_100 = Measure(
    "fan100", {C: 4_000, OURS: 3_000, NODE_WS: 2_000, OURS_STORED: 2_000}, clients=100
)
FAN_100_X16 = Measure(
    "fan100x16",
    {C: 4_000, OURS: 24_000, NODE_WS: 2_000, OURS_STORED: 16_000},
    clients=100,
    burst=16,
)
FAN_1000 = Measure("fan1000", {C: 400, OURS: 300, NODE_WS: 200}, clients=1_000)
FAN_1000_X16 = Measure("fan1000x16", {C: 400, OURS: 2_400, NODE_WS: 240}, clients=1_000, burst=16)
POST = Measure("post", {OURS: 16_000, STARLETTE: 5_000, POST_PROTOTYPE: 16_000}, stores=True)

MEASURES = (FLOW, FAN_100, FAN_100_X16, FAN_1000, FAN_1000_X16, POST)


@dataclass(frozen=True)
class Server:
    """One command to start, for each of the two kinds of measures."""

    storing: tuple[str, ...] = ()
    passing_on: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Lineup:
    """The load generators, the servers that can run here, and why the others cannot."""

    feed_load: str = ""
    post_load: str = ""
    servers: dict[str, Server] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)


def _ours() -> Server:
    command = (sys.executable, "-m", "bench.feed.ours")
    return Server(storing=command, passing_on=(*command, "--no-store"))


def _ours_stored() -> Server:
    return Server(passing_on=(sys.executable, "-m", "bench.feed.ours"))


def _c() -> Server:
    return Server(passing_on=(compiled(FEED / "fan_limit.c"),))


def _node(*flags: str) -> Server:
    command = (tool("node"), str(PEERS / "feed_node.js"), *flags)
    modules = node_modules(PACKAGES, INSTALLED / "feed" / "node", native=("better-sqlite3",))
    environment = {"NODE_PATH": str(modules)}
    return Server(storing=command, passing_on=command, environment=environment)


def _starlette() -> Server:
    python = peers_python(PACKAGES, INSTALLED / "feed" / "python")
    return Server(storing=(python, str(PEERS / "feed_starlette.py")))


def _post_prototype() -> Server:
    return Server(storing=(sys.executable, "-P", str(PEERS / "post_prototype.py")))


BUILDERS: dict[str, Callable[[], Server]] = {
    OURS: _ours,
    C: _c,
    NODE_BATCHED: _node,
    NODE_ROW_BY_ROW: lambda: _node("--row-by-row"),
    NODE_WS: lambda: _node("--no-store"),
    STARLETTE: _starlette,
    POST_PROTOTYPE: _post_prototype,
    OURS_STORED: _ours_stored,
}


def line_up() -> Lineup:
    """Install what is missing and say who can run; without the load generators nobody can."""
    lineup = Lineup()
    try:
        lineup.feed_load = compiled(FEED / "feed_load.c")
        lineup.post_load = compiled(FEED / "post_load.c")
    except UnavailableError as reason:
        lineup.skipped = dict.fromkeys(BUILDERS, f"no load generator: {reason}")
        return lineup
    for name, build in BUILDERS.items():
        try:
            lineup.servers[name] = build()
        except UnavailableError as reason:
            lineup.skipped[name] = str(reason)
    return lineup

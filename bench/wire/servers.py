"""The servers of the wire group: how each is started and how much each is asked to do.

A server is any command that takes a socket's path as its last argument, listens there and answers
`ping`, `count` and `emit` and counts `report_message`. Slower ones get smaller counts: enough for
a steady figure, so that a whole run stays within minutes.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.install import PEERS, UnavailableError, compiled, node_modules, peers_python, tool
from bench.results import OURS

WIRE = Path(__file__).parent

MEASURES = ("sequential", "inflight", "receive", "emit")

FAST = {"sequential": 20_000, "inflight": 400_000, "receive": 1_000_000, "emit": 1_000_000}
NODE = {"sequential": 20_000, "inflight": 200_000, "receive": 500_000, "emit": 400_000}
MIDDLING = {"sequential": 10_000, "inflight": 40_000, "receive": 60_000, "emit": 40_000}
# No `emit`: the package has no way to send.
SLOW = {"sequential": 2_000, "inflight": 3_000, "receive": 3_000}

QUICK_DIVISOR = 100


@dataclass(frozen=True)
class Server:
    """One command to start, and the count of each measure it takes part in."""

    name: str
    command: tuple[str, ...]
    counts: Mapping[str, int]
    environment: Mapping[str, str] = field(default_factory=dict)

    def quick(self) -> "Server":
        """The same server with just enough to do to show that it works."""
        counts = {measure: count // QUICK_DIVISOR for measure, count in self.counts.items()}
        return Server(self.name, self.command, counts, self.environment)


@dataclass(frozen=True)
class Lineup:
    """The load generator, the servers that can run here, and why the others cannot."""

    client: str
    servers: list[Server]
    skipped: dict[str, str]


def _limit() -> Server:
    return Server("c", (compiled(WIRE / "limit.c"),), FAST)


def _ours() -> Server:
    return Server(OURS, (sys.executable, "-m", "bench.wire.ours"), FAST)


def _ours_typed() -> Server:
    return Server("ours_typed", (sys.executable, "-m", "bench.wire.ours", "--typed"), FAST)


def _prototype() -> Server:
    return Server("prototype", (sys.executable, str(PEERS / "prototype.py")), FAST)


def _node_net() -> Server:
    return Server("node_net", (tool("node"), str(PEERS / "node_net.js")), NODE)


def _node_net_tuned() -> Server:
    command = (tool("node"), str(PEERS / "node_net.js"), "--coalesce")
    return Server("node_net_tuned", command, NODE)


def _vscode_jsonrpc() -> Server:
    command = (tool("node"), str(PEERS / "node_vscode_jsonrpc.js"))
    return Server("vscode_jsonrpc", command, MIDDLING, {"NODE_PATH": str(node_modules())})


def _acp() -> Server:
    return Server("acp", (peers_python(), str(PEERS / "acp_server.py")), MIDDLING)


def _streams_json() -> Server:
    return Server("streams_json", (sys.executable, str(PEERS / "streams_json.py")), MIDDLING)


def _jsonrpcserver() -> Server:
    return Server("jsonrpcserver", (peers_python(), str(PEERS / "jsonrpcserver_streams.py")), SLOW)


# Neighbours in this order are neighbours in time: the ones the goals compare stand together.
BUILDERS: dict[str, Callable[[], Server]] = {
    "c": _limit,
    OURS: _ours,
    "node_net": _node_net,
    "acp": _acp,
    "prototype": _prototype,
    "ours_typed": _ours_typed,
    "node_net_tuned": _node_net_tuned,
    "vscode_jsonrpc": _vscode_jsonrpc,
    "streams_json": _streams_json,
    "jsonrpcserver": _jsonrpcserver,
}
FULL_RUN_ONLY = frozenset({"jsonrpcserver"})


def line_up(quick: bool) -> Lineup:
    """Install what is missing and say who can run; without the load generator nobody can."""
    names = [name for name in BUILDERS if not quick or name not in FULL_RUN_ONLY]
    try:
        lineup = Lineup(compiled(WIRE / "client.c"), [], {})
    except UnavailableError as reason:
        return Lineup("", [], dict.fromkeys(names, f"no load generator: {reason}"))
    for name in names:
        try:
            server = BUILDERS[name]()
        except UnavailableError as reason:
            lineup.skipped[name] = str(reason)
        else:
            lineup.servers.append(server.quick() if quick else server)
    return lineup

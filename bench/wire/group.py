"""The wire group: in every round each measure runs on all servers, one right after another.

Neighbours in time share the machine's mood, so the ratios hold even when the figures do not.
"""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack, nullcontext
from pathlib import Path

from bench.results import BenchError, Goal, GroupResult, Options
from bench.wire.process import Running, pinned, running
from bench.wire.servers import MEASURES, Lineup, line_up
from bench.wire.table import table

CLIENT_SECONDS = 120

SEQUENTIAL = "sequential_per_s"
P50 = "sequential_p50_us"
INFLIGHT = "inflight64_per_s"
RECEIVED = "received_per_s"
EMITTED = "emitted_per_s"

GOALS = (
    Goal("wire.sequential_p50_vs_c", P50, "c", "<=", 1.6),
    Goal("wire.sequential_vs_node_net", SEQUENTIAL, "node_net", ">=", 1.25),
    Goal("wire.inflight64_vs_c", INFLIGHT, "c", ">=", 0.6),
    Goal("wire.inflight64_vs_node_net", INFLIGHT, "node_net", ">=", 3),
    Goal("wire.inflight64_vs_acp", INFLIGHT, "acp", ">=", 20),
    Goal("wire.receive_vs_node_net", RECEIVED, "node_net", ">=", 2.5),
    Goal("wire.emit_vs_node_net", EMITTED, "node_net", ">=", 5),
)


def run(options: Options) -> GroupResult:
    lineup = line_up(options.quick)
    samples: dict[str, list[dict[str, float]]] = {server.name: [] for server in lineup.servers}
    for number in range(1, options.rounds + 1 if lineup.servers else 1):
        print(f"wire: round {number} of {options.rounds}", file=sys.stderr)
        for name, measured in _round(lineup, number).items():
            samples[name].append(measured)
    return GroupResult(
        table=table(samples, lineup.skipped),
        verdicts=[goal.judge(samples, lineup.skipped) for goal in GOALS],
        samples=samples,
        skipped=lineup.skipped,
    )


def _round(lineup: Lineup, number: int) -> dict[str, dict[str, float]]:
    """Every measure once on every server; those that wait their turn are idle.

    Another server begins in each round: it matters who ran right before.
    """
    measured: dict[str, dict[str, float]] = {server.name: {} for server in lineup.servers}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agor-bench-")))
        processes = [stack.enter_context(running(server, directory)) for server in lineup.servers]
        first = number % len(processes)
        processes = processes[first:] + processes[:first]
        for measure in MEASURES:
            for process in processes:
                if measure in process.server.counts:
                    measured[process.server.name].update(_measure(lineup.client, measure, process))
    return measured


def _measure(client: str, measure: str, process: Running) -> dict[str, float]:
    """One run of the load generator; a wake-up across cores would hide a single request's cost."""
    core = max(os.sched_getaffinity(0)) if measure == "sequential" else None
    count = process.server.counts[measure]
    command = [client, measure, str(process.socket), str(count), str(-1 if core is None else core)]
    with nullcontext() if core is None else pinned(process, core):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=CLIENT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise BenchError(_failure(process, measure, "took too long")) from error
    if done.returncode != 0:
        raise BenchError(_failure(process, measure, done.stderr.strip()))
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def _failure(process: Running, measure: str, what: str) -> str:
    return f"{process.server.name}, {measure}: {what}\n{process.last_words()}".rstrip()

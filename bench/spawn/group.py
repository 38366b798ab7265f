"""The spawn group: in every round each way starts executors, one right after another in turns.

Neighbours in time share the machine's mood, so the ratios hold even when the figures do not.
"""

import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.results import GroupResult, Options
from bench.spawn.cold import Starter
from bench.spawn.crowd import cold_crowd, launched_crowd, stream
from bench.spawn.goals import PRIVATE, RATE, READY, judge, table
from bench.spawn.launched import Launcher, launcher
from bench.spawn.parallel import at_once
from bench.spawn.pooled import acquire_times
from bench.spawn.processes import collect, descendants, memory, memory_of_all
from bench.spawn.ways import (
    FORK,
    NODE,
    POOL,
    POOL_SPARE,
    PROTOTYPE,
    PYTHON_SDK,
    SPARE,
    Lineup,
    line_up,
)

Figures = dict[str, dict[str, float]]

#: Starts of each way in one round; memory is measured at the last.
TURNS = 5
#: Times in one round that prompts come at once.
PARALLEL_TURNS = 3
CROWD, CROWD_SECONDS, CROWD_ROUNDS = 200, 5.0, 3
QUICK_CROWD, QUICK_SECONDS = 10, 1.0

#: Those that run a full collection when they are told to.
COLLECTING = frozenset({"agor_executor_cold", "python", PYTHON_SDK})


def run(options: Options) -> GroupResult:
    lineup = line_up()
    samples: dict[str, list[dict[str, float]]] = {}
    turns, crowd = (1, QUICK_CROWD) if options.quick else (TURNS, CROWD)
    for number in range(1, options.rounds + 1):
        print(f"spawn: round {number} of {options.rounds}", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="agor-bench-") as directory:
            figures = _round(lineup, Path(directory), turns)
            if number <= CROWD_ROUNDS:
                seconds = QUICK_SECONDS if options.quick else CROWD_SECONDS
                _crowds(lineup, Path(directory), crowd, seconds, figures)
        for name, measured in figures.items():
            samples.setdefault(name, []).append(measured)
    return GroupResult(
        table=table(samples, lineup.skipped, crowd),
        verdicts=judge(samples, lineup.skipped),
        samples=samples,
        skipped=lineup.skipped,
    )


def _round(lineup: Lineup, directory: Path, turns: int) -> Figures:
    times: dict[str, list[float]] = {}
    figures: Figures = {}
    with ExitStack() as stack:
        starter = Starter(lineup.starter, directory)
        launchers = {
            name: stack.enter_context(launcher(spec, directory, name))
            for name, spec in lineup.launchers.items()
        }
        for turn in range(1, turns + 1):
            for name, cold in lineup.cold.items():
                with starter.started(cold, name) as started:
                    times.setdefault(name, []).append(started.ready_ms)
                    if turn == turns:
                        figures[name] = _memory(started.pid, name in COLLECTING)
            for name, up in launchers.items():
                times.setdefault(name, []).append(_launch(up, name, figures, turn == turns))
    figures |= at_once(directory / "at-once", turns=min(turns, PARALLEL_TURNS))
    times[SPARE] = acquire_times(turns, spares=1, durable=False)
    times[POOL] = acquire_times(turns, spares=0, durable=True)
    times[POOL_SPARE] = acquire_times(turns, spares=1, durable=True)
    for name, taken in times.items():
        ready = statistics.median(taken)
        figures.setdefault(name, {}).update({READY: ready, RATE: 1000 / ready})
    return figures


def _launch(up: Launcher, name: str, figures: Figures, last: bool) -> float:
    executor = up.spawn()
    if last:
        collect(executor.pid)
        own = memory(executor.pid)
        # The prototype has no keeper, and names itself.
        both = own if executor.keeper == executor.pid else own + memory(executor.keeper)
        figures[name] = {
            PRIVATE: own.private,
            "pss_mb": own.pss,
            "keeper_private_mb": both.private,
            "keeper_pss_mb": both.pss,
        }
    up.end(executor)
    return executor.ready_ms


def _memory(pid: int, collecting: bool) -> dict[str, float]:
    if collecting:
        collect(pid)
    found = memory_of_all(descendants(pid))
    return {PRIVATE: found.private, "pss_mb": found.pss}


def _crowds(lineup: Lineup, directory: Path, size: int, seconds: float, figures: Figures) -> None:
    for name in (PROTOTYPE, FORK):
        with launched_crowd(lineup.launchers[name], directory, f"crowd-{name}", size) as crowd:
            figures[name].update(stream(crowd, seconds))
    if NODE in lineup.cold:
        starter = Starter(lineup.starter, directory)
        with cold_crowd(starter, lineup.cold[NODE], size) as crowd:
            figures[NODE].update(stream(crowd, seconds))

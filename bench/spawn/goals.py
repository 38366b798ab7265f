"""The goals of the spawn group, and its table for people."""

from collections.abc import Mapping

from bench.results import OURS, Goal, Samples, Verdict, medians
from bench.spawn.parallel import DONE, EIGHT, MODEL_MS, ONE, SIXTEEN
from bench.spawn.ways import (
    FORK,
    NODE,
    OTHER_USER,
    PYTHON_SDK,
    SAME_USER,
    SPARE,
    TSX_SDK,
    C,
)

READY = "ready_ms"
#: Starts a second, one after another: the more the better, for "so many times as fast".
RATE = "starts_per_s"
PRIVATE = "private_mb"
#: What the same work costs: who does not keep pace with the events would else look better.
CPU = "crowd_cpu_us_per_event"

# Which way is ours, and what is asked of it.
GOALS = (
    (FORK, Goal("spawn.fork_vs_c", READY, C, "<=", 3)),
    (FORK, Goal("spawn.fork_vs_npx_tsx_sdk", RATE, TSX_SDK, ">=", 100)),
    (SPARE, Goal("spawn.spare_vs_npx_tsx_sdk", RATE, TSX_SDK, ">=", 800)),
    (FORK, Goal("spawn.private_vs_python_sdk", PRIVATE, PYTHON_SDK, "<=", 1 / 15)),
    (FORK, Goal("spawn.crowd_cpu_vs_node", CPU, NODE, "<=", 0.6)),
    (EIGHT, Goal("spawn.eight_at_once_vs_one", DONE, ONE, "<=", 1.5)),
    (SIXTEEN, Goal("spawn.sixteen_at_once_vs_one", DONE, ONE, "<=", 4)),
    (OTHER_USER, Goal("spawn.other_user_vs_own", READY, SAME_USER, "<=", 1.1)),
)

# heading, metric, digits after the point
COLUMNS = (
    ("ready ms", READY, 2),
    ("private MB", PRIVATE, 1),
    ("PSS MB", "pss_mb", 1),
    ("with keeper", "keeper_private_mb", 1),
    ("PSS", "keeper_pss_mb", 1),
    ("all done ms", DONE, 0),
    ("all ready s", "crowd_ready_s", 2),
    ("CPU %", "crowd_cpu_percent", 0),
    ("µs/event", CPU, 1),
    ("p50 ms", "crowd_p50_ms", 2),
    ("p99 ms", "crowd_p99_ms", 2),
    ("MB each", "crowd_pss_mb", 1),
)


def judge(samples: Samples, skipped: Mapping[str, str]) -> list[Verdict]:
    verdicts = []
    for ours, goal in GOALS:
        named = {**samples, OURS: samples.get(ours, [])}
        reasons = {**skipped, OURS: skipped[ours]} if ours in skipped else skipped
        verdicts.append(goal.judge(named, reasons))
    return verdicts


def table(samples: Samples, skipped: Mapping[str, str], crowd: int) -> str:
    names = [name for name in samples if samples[name]]
    width = max(len(name) for name in [*names, *skipped, "way"])
    rows = [
        ["way".ljust(width), *(heading for heading, _, _ in COLUMNS)],
        *([name.ljust(width), *_cells(medians(samples, name))] for name in names),
        *([name.ljust(width), f"skipped: {reason}"] for name, reason in skipped.items()),
    ]
    notes = [
        "launchers have the agents' libraries imported, as they do from seconds after their start",
        "fork_prototype: what this machine allows the bare technique, without any safeguard",
        "memory is of an idle executor after a full collection",
        "other and same user: both with the Python of the system, which everybody can read",
        "fork: a keeper waits, as always; its executor is forked when it is asked for",
        "spare: one that the pool had started ahead, until it has answered",
        "pool: `acquire` with and without a spare, until it is durable whose the executor is",
        f"all done: prompts in new sessions at once, of an agent that takes {MODEL_MS} ms",
        f'from "all ready" on: {crowd} executors at once, all their processes, 50 events/s each',
    ]
    return "\n".join(["  ".join(row).rstrip() for row in rows] + notes)


def _cells(figures: Mapping[str, float]) -> list[str]:
    return [
        (f"{figures[metric]:,.{digits}f}" if metric in figures else "-").rjust(len(heading))
        for heading, metric, digits in COLUMNS
    ]

"""The goals of the store group, and its table for people."""

from collections.abc import Mapping

from bench.results import OURS, Goal, Samples, Verdict, medians
from bench.store.ways import AIOSQLITE, FDATASYNC, LIMIT, LIMIT_ONE_FEED, OURS_ONE_FEED

NORMAL = "normal_per_s"
FULL = "full_per_s"
#: Ours: until 99 of 100 events are durable. The disk's: its usual sync.
SYNC = "sync_ms"

# Which way is ours, and what is asked of it.
GOALS = (
    (OURS, Goal("store.group_commit_vs_bare", FULL, LIMIT, ">=", 0.9)),
    (OURS, Goal("store.group_commit_normal_vs_bare", NORMAL, LIMIT, ">=", 0.9)),
    (OURS_ONE_FEED, Goal("store.one_feed_vs_bare", FULL, LIMIT_ONE_FEED, ">=", 0.9)),
    (OURS_ONE_FEED, Goal("store.one_feed_normal_vs_bare", NORMAL, LIMIT_ONE_FEED, ">=", 0.9)),
    (OURS, Goal("store.group_commit_vs_aiosqlite", FULL, AIOSQLITE, ">=", 40)),
    (OURS, Goal("store.group_commit_normal_vs_aiosqlite", NORMAL, AIOSQLITE, ">=", 40)),
    (OURS, Goal("store.durable_p99_vs_fdatasync", SYNC, FDATASYNC, "<=", 15)),
)

# heading, metric, digits after the point
COLUMNS = (
    ("NORMAL rows/s", NORMAL, 0),
    ("FULL rows/s", FULL, 0),
    ("peak MB", "peak_mb", 0),
    ("durable p50 ms", "p50_ms", 2),
    ("p99 ms", "p99_ms", 2),
    ("sync p50 ms", "disk_ms", 3),
)


def judge(samples: Samples, skipped: Mapping[str, str]) -> list[Verdict]:
    """Compare each goal's way of ours with its peer."""
    verdicts = []
    for ours, goal in GOALS:
        named = {**samples, OURS: samples.get(ours, [])}
        verdicts.append(goal.judge(named, skipped))
    return verdicts


def table(samples: Samples, skipped: Mapping[str, str]) -> str:
    """One row a way, medians over the rounds."""
    width = max(len(name) for name in [*samples, *skipped, "way"])
    rows = [
        ["way".ljust(width), *(heading for heading, _, _ in COLUMNS)],
        *([name.ljust(width), *_cells(medians(samples, name))] for name in samples),
        *([name.ljust(width), f"skipped: {reason}"] for name, reason in skipped.items()),
    ]
    notes = ["FULL syncs each commit; durable: at 10,000 events/s, a commit each, FULL"]
    return "\n".join(["  ".join(row).rstrip() for row in rows] + notes)


def _cells(figures: Mapping[str, float]) -> list[str]:
    return [
        (f"{figures[metric]:,.{digits}f}" if metric in figures else "-").rjust(len(heading))
        for heading, metric, digits in COLUMNS
    ]

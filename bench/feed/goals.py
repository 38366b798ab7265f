"""The goals of the feed group, and its table for people."""

from collections.abc import Mapping

from bench.feed.servers import (
    FAN_100,
    FAN_100_X16,
    FAN_1000,
    FAN_1000_X16,
    FLOW,
    MEASURES,
    NODE_BATCHED,
    NODE_ROW_BY_ROW,
    NODE_WS,
    POST,
    STARLETTE,
    C,
    Measure,
)
from bench.results import Goal, Samples, Verdict, medians


def _rate(measure: Measure) -> str:
    return f"{measure.name}_per_s"


GOALS = (
    Goal("feed.flow_vs_node_row_by_row", _rate(FLOW), NODE_ROW_BY_ROW, ">=", 6),
    Goal("feed.flow_vs_node_batched", _rate(FLOW), NODE_BATCHED, ">=", 2.5),
    Goal("feed.flow_vs_starlette", _rate(FLOW), STARLETTE, ">=", 8),
    Goal("feed.fan100_vs_c", _rate(FAN_100), C, ">=", 0.8),
    Goal("feed.fan100x16_vs_node_ws", _rate(FAN_100_X16), NODE_WS, ">=", 15),
    Goal("feed.fan1000_vs_c", _rate(FAN_1000), C, ">=", 0.6),
    Goal("feed.post_vs_starlette", _rate(POST), STARLETTE, ">=", 3),
)

TITLES = {
    FLOW.name: "32 executors → commit → a WebSocket client each: events",
    FAN_100.name: "one session, 100 clients, one event at a time, not stored: messages",
    FAN_100_X16.name: "the same, 16 events at a time",
    FAN_1000.name: "one session, 1,000 clients, one event at a time, not stored: messages",
    FAN_1000_X16.name: "the same, 16 events at a time",
    POST.name: "POST /sessions, 64 connections, one durable row or more each: requests",
}

# heading, metric, digits after the point
COLUMNS = (
    ("     per s", "per_s", 0),
    ("CPU µs each", "cpu_us", 2),
    ("p50 ms", "p50_ms", 2),
    ("p99 ms", "p99_ms", 2),
)

NOTES = (
    "ours stores with FULL (synced with every commit), the peers with NORMAL (synced now and then)",
    "CPU is that of the server's own process; ours has another, which writes to the database",
    "ours tells clients in turns: whose turn is later is sent all that came meanwhile in one send",
    "ours_stored: events are stored on their way to the clients",
    "post_prototype: what this machine allows, one row and no safeguard",
)


def judge(samples: Samples, skipped: Mapping[str, str]) -> list[Verdict]:
    """Compare ours with each goal's peer."""
    return [goal.judge(samples, skipped) for goal in GOALS]


def table(samples: Samples, skipped: Mapping[str, str]) -> str:
    """A part for each measure, medians over the rounds."""
    width = max(len(name) for name in [*samples, *skipped, "server"])
    lines: list[str] = []
    for measure in MEASURES:
        lines += [TITLES[measure.name]]
        lines += ["  ".join(["server".ljust(width), *(heading for heading, _, _ in COLUMNS)])]
        for name in measure.counts:
            figures = medians(samples, name)
            if _rate(measure) in figures:
                lines.append("  ".join([name.ljust(width), *_cells(figures, measure)]))
        lines.append("")
    lines += [f"{name.ljust(width)}  skipped: {reason}" for name, reason in skipped.items()]
    return "\n".join([*lines, *NOTES])


def _cells(figures: Mapping[str, float], measure: Measure) -> list[str]:
    return [
        f"{figures[f'{measure.name}_{metric}']:,.{digits}f}".rjust(len(heading))
        for heading, metric, digits in COLUMNS
    ]

"""The wire group's table for people: one row a server, medians over the rounds."""

from collections.abc import Mapping

from bench.results import Samples, medians

# heading, metric, digits after the point
COLUMNS = (
    ("sequential req/s", "sequential_per_s", 0),
    ("p50 µs", "sequential_p50_us", 1),
    ("p99 µs", "sequential_p99_us", 1),
    ("64 in flight req/s", "inflight64_per_s", 0),
    ("CPU µs/req", "inflight64_cpu_us", 2),
    ("received events/s", "received_per_s", 0),
    ("emitted events/s", "emitted_per_s", 0),
)


def table(samples: Samples, skipped: Mapping[str, str]) -> str:
    names = [*samples, *skipped]
    width = max(len(name) for name in ["server", *names])
    headings = [heading for heading, _, _ in COLUMNS]
    rows = [
        ["server".ljust(width), *headings],
        *([name.ljust(width), *_cells(medians(samples, name))] for name in samples),
        *([name.ljust(width), f"skipped: {reason}"] for name, reason in skipped.items()),
    ]
    return "\n".join("  ".join(row) for row in rows)


def _cells(figures: Mapping[str, float]) -> list[str]:
    return [
        (f"{figures[metric]:,.{digits}f}" if metric in figures else "-").rjust(len(heading))
        for heading, metric, digits in COLUMNS
    ]

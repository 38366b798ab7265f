"""The store group: in every round each way writes into an empty database, one after another.

Neighbours in time share the machine's mood, so the ratios hold even when the figures do not.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.store.postgres_server import PostgresServer, binaries

from bench.install import BUILT
from bench.results import OURS, BenchError, GroupResult, Options
from bench.store.goals import FULL, NORMAL, SYNC, judge, table
from bench.store.ways import FDATASYNC, QUICK_DIVISOR, Way, line_up

WAY_SECONDS = 120
PACED = 30_000

Figures = dict[str, float]


def run(options: Options) -> GroupResult:
    """Measure every way in every round."""
    lineup = line_up()
    with _postgres() as server:
        ways = lineup.ways
        if server is None:
            lineup.skipped.update({way.name: "no initdb here" for way in ways if way.postgres})
            ways = [way for way in ways if not way.postgres]
        samples: dict[str, list[Figures]] = {way.name: [] for way in ways}
        for number in range(1, options.rounds + 1):
            print(f"store: round {number} of {options.rounds}", file=sys.stderr)
            for way in ways:
                samples[way.name].append(_measure(way, options.quick, server))
    return GroupResult(
        table=table(samples, lineup.skipped),
        verdicts=judge(samples, lineup.skipped),
        samples=samples,
        skipped=lineup.skipped,
    )


@contextmanager
def _postgres() -> Iterator[PostgresServer | None]:
    """A server of our own, that syncs as one in use does."""
    found = binaries()
    if found is None:
        yield None
        return
    server = PostgresServer(found, fsync=True)
    try:
        server.create()
        yield server
    finally:
        server.remove()


def _measure(way: Way, quick: bool, server: PostgresServer | None) -> Figures:
    divisor = QUICK_DIVISOR if quick else 1
    figures: Figures = {}
    for sync, count, metric in (("NORMAL", way.normal, NORMAL), ("FULL", way.full, FULL)):
        if count:
            found = _run(way, way.command, sync, count // divisor, server)
            if "rows_per_s" in found:
                figures[metric] = found.pop("rows_per_s")
            figures.update(found)
    if way.name == FDATASYNC:
        figures["disk_ms"] = figures[SYNC]
    if way.name == OURS or way.paced:
        paced = (*way.command[:-1], "pace")
        figures.update(_run(way, paced, "FULL", (way.paced or PACED) // divisor, server))
    return figures


def _run(
    way: Way, command: tuple[str, ...], sync: str, count: int, server: PostgresServer | None
) -> Figures:
    BUILT.mkdir(exist_ok=True)
    # Beside the repository: the place for temporary files is in memory on many machines.
    with tempfile.TemporaryDirectory(prefix="store-", dir=BUILT) as folder:
        more = []
        if way.postgres and server is not None:
            more = [asyncio.run(server.empty_database())]
        try:
            done = subprocess.run(
                [*command, sync, str(count), folder, *more],
                env=way.environment or os.environ,
                cwd=Path(__file__).parents[2],
                capture_output=True,
                text=True,
                timeout=WAY_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise BenchError(f"{way.name} took over {WAY_SECONDS} s") from error
    if done.returncode != 0:
        raise BenchError(f"{way.name}: {done.stderr.strip()[-2000:]}")
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return found

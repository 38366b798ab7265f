"""The feed group: in every round each measure runs on all its servers, one right after another.

Neighbours in time share the machine's mood, so the ratios hold even when the figures do not. Every
run has a server of its own, on an empty folder.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.feed.goals import judge, table
from bench.feed.process import NEW_SESSION, Running, running
from bench.feed.servers import MEASURES, POST, Lineup, Measure, line_up
from bench.results import BenchError, GroupResult, Options

LOAD_SECONDS = 120
CONNECTIONS = 64
#: The part of what is sent before it is measured.
WARM_UP = 5
#: Seconds for a server to note a client that it has just accepted: peers have no replay.
SETTLE = 0.3
#: Enough for a thousand clients and what else is open.
OPEN_FILES = 8192

Figures = dict[str, dict[str, float]]


def run(options: Options) -> GroupResult:
    lineup = line_up()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(OPEN_FILES, hard)), hard))
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in lineup.servers}
    for number in range(1, options.rounds + 1 if lineup.servers else 1):
        print(f"feed: round {number} of {options.rounds}", file=sys.stderr)
        for name, measured in _round(lineup, number, options.quick).items():
            samples[name].append(measured)
    return GroupResult(
        table=table(samples, lineup.skipped),
        verdicts=judge(samples, lineup.skipped),
        samples=samples,
        skipped=lineup.skipped,
    )


def _round(lineup: Lineup, number: int, quick: bool) -> Figures:
    """Every measure once on every server; another one begins in each round."""
    figures: Figures = {name: {} for name in lineup.servers}
    for measure in MEASURES:
        names = [name for name in measure.counts if name in lineup.servers]
        first = number % len(names) if names else 0
        for name in names[first:] + names[:first]:
            try:
                found = _measure(lineup, measure, name, measure.count(name, quick))
            except BenchError as error:
                raise BenchError(f"{name}, {measure.name}: {error}") from error
            figures[name].update({f"{measure.name}_{key}": value for key, value in found.items()})
    return figures


def _measure(lineup: Lineup, measure: Measure, name: str, count: int) -> dict[str, float]:
    server = lineup.servers[name]
    command = server.storing if measure.stores else server.passing_on
    with tempfile.TemporaryDirectory(prefix="agor-bench-") as directory:
        with running(command, server.environment, Path(directory)) as process:
            if measure is POST:
                return _post(lineup.post_load, process, count)
            figures = _feed(lineup.feed_load, process, measure, count)
        if measure.stores and process.stored_deltas() != measure.executors * count:
            raise BenchError(f"{process.stored_deltas()} of {measure.executors * count} are stored")
    return figures


def _post(load: str, process: Running, count: int) -> dict[str, float]:
    arguments = [process.port, process.token, process.pid, CONNECTIONS, count, count // WARM_UP]
    command = [load, *map(str, arguments), "/sessions", NEW_SESSION]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as playing:
        return _figures(playing, process)


def _feed(load: str, process: Running, measure: Measure, count: int) -> dict[str, float]:
    sessions = process.open_sessions(measure.executors)
    total = measure.executors * measure.clients * count
    arguments = [process.folder, process.port, process.token, measure.executors, measure.clients]
    command = [load, *map(str, [*arguments, count, total // WARM_UP, measure.burst])]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as playing:
        assert playing.stdin is not None
        assert playing.stdout is not None
        playing.stdin.write("\n".join(sessions).encode() + b"\n")
        playing.stdin.flush()
        if playing.stdout.readline() == b"ready\n":
            time.sleep(SETTLE)
            for session in sessions:
                process.prompt(session)
        return _figures(playing, process)


def _figures(playing: subprocess.Popen[bytes], process: Running) -> dict[str, float]:
    try:
        told, complaint = playing.communicate(timeout=LOAD_SECONDS)
    except subprocess.TimeoutExpired as error:
        playing.kill()
        raise BenchError(f"took too long\n{process.last_words()}") from error
    if playing.returncode != 0:
        raise BenchError(f"{complaint.decode().strip()}\n{process.last_words()}".rstrip())
    figures: dict[str, float] = json.loads(told)
    return figures

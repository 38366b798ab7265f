"""The command line: choose the groups, print their tables and goals, keep the figures as JSON.

It measures and never asserts: a goal that is short does not change the exit code, a run that
fails does.
"""

import argparse
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from bench.agents.group import run as run_agents
from bench.feed.group import run as run_feed
from bench.history.group import run as run_history
from bench.machine import machine_facts
from bench.results import BenchError, GroupResult, Options
from bench.spawn.group import run as run_spawn
from bench.store.group import run as run_store
from bench.wire.group import run as run_wire

GROUPS: dict[str, Callable[[Options], GroupResult]] = {
    "wire": run_wire,
    "spawn": run_spawn,
    "store": run_store,
    "feed": run_feed,
    "history": run_history,
    "agents": run_agents,
}

RESULTS = Path(__file__).parent / "results.json"
ROUNDS = 5


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", choices=GROUPS, metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="PATH")
    parser.add_argument(
        "--rounds", type=positive, metavar="N", help=f"default {ROUNDS}, or 1 with --quick"
    )
    parser.add_argument(
        "--quick", action="store_true", help="tiny counts: checks that everything works"
    )
    return parser.parse_args()


def write_json(path: Path, options: Options, results: dict[str, GroupResult]) -> None:
    document = {
        "machine": machine_facts(),
        "options": {"rounds": options.rounds, "quick": options.quick},
        "groups": {name: result.as_json() for name, result in results.items()},
    }
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> int:
    # Without a handler SIGTERM would skip the `finally` blocks that stop the servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    arguments = parse_arguments()
    rounds = arguments.rounds or (1 if arguments.quick else ROUNDS)
    options = Options(rounds=rounds, quick=arguments.quick)
    names = [arguments.only] if arguments.only else list(GROUPS)
    try:
        results = {name: GROUPS[name](options) for name in names}
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    for result in results.values():
        print(result.table, end="\n\n")
    for result in results.values():
        for verdict in result.verdicts:
            print(verdict.line())
    write_json(arguments.json, options, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())

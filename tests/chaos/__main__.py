"""The command: `make chaos ONLY=pool DURATION=40`. Its last line tells the result."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable

from tests.chaos import daemon, pool

GROUPS: dict[str, Callable[[float, int], bool]] = {"pool": pool.run, "daemon": daemon.run}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--only", choices=GROUPS, help="one group instead of all")
    parser.add_argument("--duration", type=float, default=40.0, help="seconds (default: 40)")
    parser.add_argument("--kills", type=int, default=0, help="go on until there were so many")
    parser.add_argument("--seed", type=int, default=None, help="choose the same victims again")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    groups = [arguments.only] if arguments.only else list(GROUPS)
    results = [GROUPS[name](arguments.duration, arguments.kills) for name in groups]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

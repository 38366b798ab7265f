"""Where `agor-executor` begins. An errand is over before the rest would even be imported."""

from __future__ import annotations

import sys


def main() -> int:
    """Run an errand, or the executor."""
    if sys.argv[1:] == ["--errand"]:
        from agor.executor.errand import run_errand

        return run_errand()
    from agor.executor.main import main as serve

    return serve()

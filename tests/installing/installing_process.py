"""Installs the tiny agent in a process of its own, for tests that interrupt it or run two."""

import sys
from pathlib import Path

from agor.installing.folder import AgentsFolder
from agor.installing.install import install
from tests.installing.registry import tiny_agent

if __name__ == "__main__":
    path, version, lock = sys.argv[1:]
    done = install(
        tiny_agent(version),
        AgentsFolder(Path(path)),
        lock=Path(lock).read_bytes(),
        on_begin=lambda: print("begins", flush=True),
        on_wait=lambda: print("waits", flush=True),
    )
    print(done.version, flush=True)

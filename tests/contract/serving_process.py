"""The service in a process of its own, so that its memory can be weighed from outside.

Run as `python -m tests.contract.serving_process PATH STALL_TIMEOUT LOOP`; it serves until it is
killed. Tests use `served_apart`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvloop

from agor.rpc import Limits, Peer, unix
from agor.rpc.listener import Listener
from tests.contract.descriptors import open_files
from tests.contract.service import Service
from tests.contract.waiting import soon

ROOT = Path(__file__).parents[2]


class Served:
    """A running process that serves at a path."""

    def __init__(self, path: Path, pid: int) -> None:
        self.path = path
        self._pid = pid

    @property
    def most_memory(self) -> int:
        """The most bytes of memory that it has ever had."""
        return self._status("VmHWM") * 1024

    @property
    def open_files(self) -> int:
        """How many descriptors it has open."""
        return len(open_files(self._pid))

    def _status(self, name: str) -> int:
        for line in Path(f"/proc/{self._pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
        raise LookupError(name)


@asynccontextmanager
async def served_apart(
    folder: Path, stall_timeout: float, loop_kind: str = "uvloop"
) -> AsyncIterator[Served]:
    """Serve in another process."""
    path = folder / "apart"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __spec__.name, str(path), str(stall_timeout), loop_kind,
        cwd=ROOT, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert await soon(process.stdout.readline()) == b"ready\n"
        yield Served(path, process.pid)
    finally:
        process.kill()
        await process.wait()


async def _serve(path: str, stall_timeout: float) -> None:
    service = Service()
    limits = Limits(stall_timeout=stall_timeout, max_unsent=8 * 1024 * 1024)
    listener = Listener(unix.bind(path).listener, lambda: Peer(service.routes, limits))
    print("ready", flush=True)
    await asyncio.Event().wait()
    await listener.close()


if __name__ == "__main__":
    factory = uvloop.new_event_loop if sys.argv[3] == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_serve(sys.argv[1], float(sys.argv[2])))

"""A child process of an agent: its output as text, and an end that leaves nothing behind."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agor.errors import AgentFailed

_CHUNK = 64 * 1024
_TERM_GRACE = 2.0


class Child:
    """A running child; standard error goes where standard output goes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def output(self) -> AsyncIterator[str]:
        """Give its output piece by piece; bytes that are not UTF-8 are shown as replacements."""
        assert self._process.stdout is not None
        # Incremental: a character may be split over two reads.
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        while data := await self._process.stdout.read(_CHUNK):
            if text := decoder.decode(data):
                yield text
        if rest := decoder.decode(b"", final=True):
            yield rest

    async def wait(self) -> int:
        """Wait for its end: the exit code, or minus the signal that killed it."""
        return await self._process.wait()

    async def stop(self) -> None:
        """End it and its process group: TERM, then KILL."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TERM_GRACE):
                await self._process.wait()
        # Even if the leader ended, others of its group may not have.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()


@asynccontextmanager
async def child(command: list[str], cwd: str) -> AsyncIterator[Child]:
    """Start a command in its own process group, which ends when the block is left."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise AgentFailed(f"cannot run {command[0]!r}: {error.strerror}") from error
    running = Child(process)
    try:
        yield running
    finally:
        # A second cancellation must not leave the group half ended.
        await asyncio.shield(running.stop())

"""A task as the launcher was given it, turned into an executor that only lacks a process.

Memory is shared with the process that was forked from until one of the two writes to it, and
copying it is most of what a start costs. So all of this is made before the fork where it can be.
"""

from __future__ import annotations

import os
import resource

import msgspec

from agor.executor.main import serve_listener
from agor.executor.server import Executor, Options
from agor.protocol.launching import MARK, SpawnParams
from agor.rpc.unix import take_over

_read_task = msgspec.json.Decoder(SpawnParams).decode


def make_executor(options: Options | None = None) -> Executor:
    """Make an executor, as one will be wanted most likely."""
    executor = Executor(options or Options())
    executor.prepare()
    return executor


class Plan:
    """An executor to be: it has its socket, and needs an event loop."""

    def __init__(self, packet: bytes, listener: int, groups: list[int], ahead: Executor) -> None:
        """Take a task; `ahead` is used for it, if it was made as the task wants it."""
        self._task = task = _read_task(packet)
        self._groups = groups
        self._listener = take_over(listener)
        options = Options(
            max_line=task.max_line,
            outbox_bytes=task.outbox_bytes,
            orphan_timeout=task.orphan_timeout_ms / 1000,
            unused_timeout=task.unused_timeout_ms / 1000,
        )
        self._executor = ahead if ahead.take_on(options) else make_executor(options)

    @property
    def descriptors(self) -> set[int]:
        """Those that it needs."""
        return {self._listener.fileno(), *self._groups}

    def put_mark(self) -> None:
        """Mark all that will be started from here as this executor's."""
        os.environ[MARK] = self._task.executor_id

    def close(self) -> None:
        """Let go of it: somebody else carries it out."""
        self._listener.close()
        for group in self._groups:
            os.close(group)

    async def carry_out(self) -> int:
        """Take the limits on, and serve until told to end."""
        for group in self._groups:
            os.write(group, b"0")
            os.close(group)
        for number, limit in self._task.rlimits:
            hard = resource.getrlimit(number)[1]
            value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(number, (value, value))
        return await serve_listener(self._listener, self._executor)

"""An agent's program that is spoken to over its standard streams, until it is told to end.

It has a clean environment and a process group of its own. What it says on standard error is read at
all times, and the last of it is kept, so that its end can be explained.

What it starts may leave its group, and often does: agents run commands in sessions of their own. So
its environment has a mark, by which everything that came of it is found when it is ended, and what
descends from it is noted before.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Self

from agor import linux
from agor.agents.processes import Group, describe_exit
from agor.errors import AgentEnded, AgentMissing
from agor.protocol.launching import MARK, Process

_TAIL = 4096
#: The variable by which what a program has left behind is found.
_MARK = "AGOR_PROGRAM"
#: What terminals take for colours, and people who read an error for rubbish.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
#: Seconds for a program to end by itself once its standard input is closed.
_GRACE = 1.0
#: Seconds between two looks at processes that are nobody's children of ours: they have no event.
_LOOK_AGAIN = 0.01


def _executor_mark() -> dict[str, str]:
    """Return the variable by which an executor's processes are found if it is killed."""
    return {MARK: os.environ[MARK]} if MARK in os.environ else {}


class Program(Group):
    """A running program."""

    def __init__(self, process: subprocess.Popen[bytes], name: str, mark: str) -> None:
        super().__init__(process)
        self._name = name
        self._mark = mark
        self._tail = b""
        #: Who else wants what it says on standard error, as it comes.
        self.heard: Callable[[bytes], None] | None = None
        self._stopped: asyncio.Task[None] | None = None
        self.stdout: asyncio.StreamReader
        self.stdin: asyncio.StreamWriter
        self._errors: asyncio.Task[None]
        self._transports: list[asyncio.BaseTransport] = []

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        name: str,
        descriptors: Sequence[int] = (),
    ) -> Self:
        """Start a program; `env` and the descriptors are all that it gets."""
        mark = uuid.uuid4().hex
        try:
            process = subprocess.Popen(  # noqa: ASYNC220 - a start that waits can be cut in half
                list(command),
                cwd=cwd,
                env={**env, **_executor_mark(), _MARK: mark},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=tuple(descriptors),
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            raise AgentMissing(f"cannot run {name}: {error}") from error
        program = cls(process, name, mark)
        try:
            await program._connect(process)
        except BaseException:
            await asyncio.shield(program.stop())
            raise
        return program

    async def _connect(self, process: subprocess.Popen[bytes]) -> None:
        self.stdout = asyncio.StreamReader()
        errors = asyncio.StreamReader()
        for pipe, reader in ((process.stdout, self.stdout), (process.stderr, errors)):
            reading = partial(asyncio.StreamReaderProtocol, reader)
            transport, _ = await self._loop.connect_read_pipe(reading, pipe)
            self._transports.append(transport)
        flow = asyncio.streams.FlowControlMixin
        writing, flowing = await self._loop.connect_write_pipe(flow, process.stdin)
        self._transports.append(writing)
        self.stdin = asyncio.StreamWriter(writing, flowing, None, self._loop)
        self._errors = asyncio.create_task(self._keep_tail(errors))

    async def _keep_tail(self, errors: asyncio.StreamReader) -> None:
        while data := await errors.read(_TAIL):
            self._tail = (self._tail + data)[-_TAIL:]
            if self.heard is not None:
                self.heard(data)

    async def ended(self) -> AgentEnded:
        """Explain the end of a program that should go on: how it ended, and its last words."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.wait(), _GRACE)
        how = f"ended ({describe_exit(await self.wait())})" if self.exited else "closed its output"
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._errors), _GRACE)
        words = _COLOURS.sub("", self._tail.decode(errors="replace")).strip()
        return AgentEnded(f"{self._name} {how}" + (f": {words}" if words else ""))

    async def stop(self) -> None:
        """Let it end by closing its input, then end all of it by force; more than once is once."""
        if self._stopped is None:
            self._stopped = asyncio.create_task(self._stop())
        await asyncio.shield(self._stopped)

    async def _stop(self) -> None:
        family = await asyncio.to_thread(self._descendants)
        if self._transports:
            self._transports[-1].close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.wait(), _GRACE)
        # If nobody can be looked at now, the group ends all the same, and the rest is ended with
        # the executor.
        if self.exited:
            with contextlib.suppress(OSError):
                await self._let_others_end()
        await super().stop()
        with contextlib.suppress(OSError):
            await asyncio.to_thread(self._kill_rest, family)
        for transport in self._transports:
            transport.close()

    def _descendants(self) -> list[Process]:
        """List it and all that it started; nobody if they cannot be looked at now."""
        with contextlib.suppress(OSError):
            root = linux.process_of(self.pid)
            return [] if root is None else linux.family([root])
        return []

    async def _let_others_end(self) -> None:
        """Let those that it left behind in its session save what they have to."""
        others = await asyncio.to_thread(linux.session, self.pid)
        for process in others:
            linux.send(process, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                while any(linux.is_alive(each) for each in others):  # noqa: ASYNC110 - see above
                    await asyncio.sleep(_LOOK_AGAIN)

    def _kill_rest(self, family: list[Process]) -> None:
        linux.kill_family([*family, *linux.marked(_MARK, self._mark)])

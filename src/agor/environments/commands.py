"""A command that runs in an environment: its three streams, its end, and how to collect it all."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from agor.errors import EnvironmentFailed

#: Bytes that `run` collects of each output stream, unless told otherwise.
MAX_OUTPUT = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that ran to its end, with everything it wrote."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class CommandInput(ABC):
    """Standard input of a command. It takes nothing it cannot pass on, so nothing piles up."""

    @abstractmethod
    async def write(self, data: bytes) -> None:
        """Write, and wait until all of it is on its way to the command.

        Raises `EnvironmentFailed` if the command reads no more.
        """

    @abstractmethod
    async def close(self) -> None:
        """End the input: the command reads an end of file. Closing twice is fine."""


class RunningCommand(ABC):
    """A started command. Leaving its `async with` block ends it, with its whole process group.

    It ends with the process that was started. What that left in the background neither delays
    `wait` nor keeps the streams open, and is ended with the group.

    A group is what an environment can reach. A process that made a session or group of its own
    (`setsid`) has left it and goes on, until the environment is gone or somebody who can see it
    (the pool's launcher, a cgroup) ends it.
    """

    stdin: CommandInput
    #: What it wrote, piece by piece, for one reader each. Nothing is read ahead: a command whose
    #: output is not read stops at its next write. So read both, or use `run`.
    stdout: AsyncIterator[bytes]
    stderr: AsyncIterator[bytes]

    @abstractmethod
    async def wait(self) -> int:
        """Wait for its end: the exit code, or minus the signal that killed it.

        As in a shell, 127 means that there is no such program and 126 that it cannot be run or
        that its folder cannot be entered; standard error has the reason.
        Raises `CommandTimedOut` if its time ran out; so do the streams where they end.
        """

    @abstractmethod
    async def kill(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal to its whole process group. Once it is closed, this does nothing."""

    @abstractmethod
    async def close(self) -> None:
        """End what is left of its group: TERM, a bounded wait, KILL. Closing twice is fine."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


async def collect(command: RunningCommand, given: bytes, max_output: int) -> Completed:
    """Give a command its input, and collect what it writes until it ends."""
    tasks = (
        asyncio.create_task(_feed(command.stdin, given)),
        asyncio.create_task(_read_all(command.stdout, max_output)),
        asyncio.create_task(_read_all(command.stderr, max_output)),
    )
    try:
        _, stdout, stderr = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return Completed(await command.wait(), stdout or b"", stderr or b"")


async def _feed(stdin: CommandInput, given: bytes) -> None:
    # Not to read one's input is no mistake.
    with contextlib.suppress(EnvironmentFailed):
        await stdin.write(given)
    await stdin.close()


async def _read_all(stream: AsyncIterator[bytes], at_most: int) -> bytes:
    pieces = bytearray()
    async for piece in stream:
        pieces += piece
        if len(pieces) > at_most:
            raise EnvironmentFailed(
                f"the command wrote more than {at_most} bytes, and was ended",
                hint="Let it write to a file, or read its output as it comes with exec.",
            )
    return bytes(pieces)

"""The daemon's side of terminals: what came of each, by its number, and ways to type and wait.

Programs of the tests are run in place of a shell: a script of their own, without prompts.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from agor.protocol.methods import (
    ACK_TERMINAL,
    ATTACH_TERMINAL,
    CLOSE_TERMINAL,
    DETACH_TERMINAL,
    REPORT_TERMINAL,
    RESIZE_TERMINAL,
    SPAWN_TERMINAL,
    TERMINAL_INPUT,
)
from agor.protocol.terminals import (
    AckTerminalParams,
    AttachTerminalParams,
    AttachTerminalResult,
    CloseTerminalParams,
    DetachTerminalParams,
    ReportTerminalParams,
    ResizeTerminalParams,
    SpawnTerminalParams,
    SpawnTerminalResult,
    TerminalInputParams,
)
from tests.integration.daemon_side import Daemon
from tests.integration.executor_process import ExecutorProcess

_numbers = itertools.count(1)


def shell_script(folder: Path, text: str) -> str:
    """Make a program of shell commands that says `ready`; what it prints passes as it is."""
    return _program(folder, f"#!/bin/sh\nstty -echo -onlcr\necho ready\n{text}\n")


def python_script(folder: Path, text: str) -> str:
    """Make a program in Python."""
    return _program(folder, f"#!{sys.executable} -IS\nimport os, signal, sys, tty\n{text}\n")


def _program(folder: Path, text: str) -> str:
    path = folder / f"program-{next(_numbers)}"
    path.write_text(text)
    path.chmod(0o700)
    return str(path)


class Screen:
    """One terminal, as one connection has it."""

    def __init__(self, side: Onlooker, terminal_id: str) -> None:
        self._side = side
        self.id = terminal_id
        #: The place of the first byte of `seen`, and of the next one to come.
        self.begin = self.next = 0
        self.seen = b""
        self.exit_code: int | None = None
        #: Whether what comes is acknowledged at once.
        self.acknowledges = True
        #: Reports that came before the answer which says what they follow.
        self._early: list[ReportTerminalParams] | None = None

    async def attach(self, after: int = 0) -> AttachTerminalResult:
        """Look at it from a place on."""
        self._early = []
        params = AttachTerminalParams(terminal_id=self.id, after=after)
        answer: AttachTerminalResult = await self._side.ask(ATTACH_TERMINAL, params)
        early, self._early = self._early, None
        self.begin, self.seen = answer.offset, answer.data
        self.next = answer.offset + len(answer.data)
        self.exit_code = answer.exit_code
        for report in early:
            # Those of an attachment before: the answer has them, and the end if it is one.
            if report.offset >= self.next and self.exit_code is None:
                self.take(report)
        return answer

    def take(self, report: ReportTerminalParams) -> None:
        """Take a report: each follows the one before."""
        if self._early is not None:
            self._early.append(report)
            return
        assert self.exit_code is None, "nothing comes after the end"
        assert report.offset == self.next
        self.seen += report.data
        self.next += len(report.data)
        self.exit_code = report.exit_code
        if self.acknowledges:
            self.acknowledge()

    def acknowledge(self, offset: int | None = None) -> None:
        """Say how far it was passed on: all that came, if nothing else is said."""
        place = self.next if offset is None else offset
        self._side.peer.notify(ACK_TERMINAL, AckTerminalParams(terminal_id=self.id, offset=place))

    def detach(self) -> None:
        """Look away."""
        self._side.peer.notify(DETACH_TERMINAL, DetachTerminalParams(terminal_id=self.id))

    async def type(self, data: bytes | str) -> None:
        """Type, and wait until it is taken."""
        data = data.encode() if isinstance(data, str) else data
        params = TerminalInputParams(terminal_id=self.id, data=data)
        await self._side.ask(TERMINAL_INPUT, params)

    async def resize(self, cols: int, rows: int) -> None:
        """Change the window."""
        params = ResizeTerminalParams(terminal_id=self.id, cols=cols, rows=rows)
        await self._side.ask(RESIZE_TERMINAL, params)

    async def close(self) -> None:
        """Close it."""
        await self._side.ask(CLOSE_TERMINAL, CloseTerminalParams(terminal_id=self.id))

    async def sees(self, text: bytes | str) -> bytes:
        """Wait until this was printed, and give what was printed before it; both are forgotten."""
        text = text.encode() if isinstance(text, str) else text
        try:
            await self._side.until(lambda: text in self.seen)
        except TimeoutError:
            ended = "" if self.exit_code is None else f" and it ended with {self.exit_code}"
            raise AssertionError(f"{text!r} was not printed, but {self.seen!r}{ended}") from None
        before, _, self.seen = self.seen.partition(text)
        self.begin = self.next - len(self.seen)
        return before

    async def until_next(self, offset: int) -> None:
        """Wait until so much has come."""
        await self._side.until(lambda: self.next >= offset)

    async def ended(self) -> int:
        """Wait for the end of its shell."""
        await self._side.until(lambda: self.exit_code is not None)
        assert self.exit_code is not None
        return self.exit_code


class Onlooker(Daemon):
    """A daemon that looks at terminals."""

    def __init__(self, executor: ExecutorProcess) -> None:
        super().__init__()
        #: So that whatever the terminals start is found.
        self._environment = executor.mark.on({})
        self.screens: dict[str, Screen] = {}
        self.faults: list[AssertionError] = []
        self.routes.on_notice(REPORT_TERMINAL, self._take)

    async def ask(self, method: Any, params: Any) -> Any:
        """Ask the executor."""
        return await self.peer.call(method, params, timeout=self.patience)

    async def settle(self) -> None:
        """Wait until all that tasks of the test have begun to ask was read by the executor."""
        # They begin while the first one is waited for, and the second comes after them.
        await self.ping()
        await self.ping()

    async def spawn(
        self, folder: Path, shell: str = "sh", terminal_id: str | None = None, **more: Any
    ) -> SpawnTerminalResult:
        """Open a terminal, at home in a folder where nothing is set up."""
        env = self._environment | {"HOME": str(folder), "HISTFILE": ""} | more.pop("env", {})
        params = SpawnTerminalParams(
            terminal_id=terminal_id or f"terminal-{next(_numbers)}",
            shell=shell,
            env=env,
            **({"cwd": str(folder)} | more),
        )
        answer: SpawnTerminalResult = await self.ask(SPAWN_TERMINAL, params)
        return answer

    async def open(self, folder: Path, shell: str = "sh", **more: Any) -> Screen:
        """Open a terminal and look at it."""
        screen = self.screen((await self.spawn(folder, shell, **more)).terminal_id)
        await screen.attach()
        return screen

    async def run(self, folder: Path, commands: str, **more: Any) -> Screen:
        """Open a terminal that runs shell commands; returns when it is about to."""
        screen = await self.open(folder, shell_script(folder, commands), **more)
        await screen.sees("ready\n")
        return screen

    def screen(self, terminal_id: str) -> Screen:
        """Look at a terminal of this name."""
        screen = self.screens[terminal_id] = Screen(self, terminal_id)
        return screen

    def _take(self, report: ReportTerminalParams) -> None:
        try:
            if report.terminal_id in self.screens:
                self.screens[report.terminal_id].take(report)
        except AssertionError as fault:
            # In here it would only be logged.
            self.faults.append(fault)
        self._news.set()

    async def until(self, happened: Callable[[], object]) -> None:
        """Wait until something has happened, or has gone wrong."""
        await super().until(lambda: self.faults or happened())
        self.check()

    def check(self) -> None:
        """Nothing came that should not have."""
        for fault in self.faults:
            raise fault


@contextlib.asynccontextmanager
async def looking_at(executor: ExecutorProcess) -> AsyncIterator[Onlooker]:
    """Connect to an executor and greet it; hang up at the end."""
    side = Onlooker(executor)
    try:
        await side.connect(executor.path)
        await side.greet()
        yield side
        side.check()
    finally:
        await side.close()


async def cut(side: Onlooker) -> None:
    """Drop a connection without a word."""
    side.peer.abort()
    async with asyncio.timeout(side.patience):
        await side.peer.wait_closed()

"""Executors for the tests: one of their own for those that end it, one shared by the others."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.daemon_side import Daemon, daemon
from tests.integration.executor_process import (
    ExecutorProcess,
    start_binding,
    start_command,
    start_listening,
)
from tests.integration.processes import PATIENCE
from tests.integration.wire import request, wire

Start = Callable[..., ExecutorProcess]


@pytest.fixture
def socket_path(tmp_path: Path) -> Path:
    """A place for a socket."""
    return tmp_path / "executor.sock"


@pytest.fixture
def launch() -> Iterator[Start]:
    """Start executor processes in any way; they end with the test."""
    started: list[ExecutorProcess] = []

    def start(*arguments: str, how: Start = start_command, **more: object) -> ExecutorProcess:
        started.append(how(*arguments, **more))
        return started[-1]

    yield start
    for executor in started:
        executor.clean_up()


@pytest.fixture
def start(launch: Start, socket_path: Path) -> Start:
    """Start an executor with these flags, on a socket that listens already."""

    def start(*arguments: str) -> ExecutorProcess:
        return launch(*arguments, how=start_listening, path=socket_path)

    return start


@pytest.fixture
def bind(launch: Start, socket_path: Path) -> Start:
    """Start an executor with these flags that binds its socket itself, and wait for it."""

    def start(*arguments: str) -> ExecutorProcess:
        executor = launch(*arguments, how=start_binding, path=socket_path)
        executor.wait_logged("listening")
        return executor

    return start


@pytest.fixture
def own_executor(start: Start) -> ExecutorProcess:
    """An executor of the test's own, with default flags."""
    return start()


@pytest.fixture(scope="session")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], ExecutorProcess]]:
    started: list[ExecutorProcess] = []

    def current() -> ExecutorProcess:
        # A test that failed may have left something; the next one must not suffer for it.
        if not started or not _in_order(started[-1]):
            path = tmp_path_factory.mktemp("shared") / "executor.sock"
            started.append(start_listening(path=path))
        return started[-1]

    yield current
    for executor in started:
        executor.clean_up()


def _in_order(executor: ExecutorProcess) -> bool:
    if not executor.running or executor.offspring():
        return False
    with wire(executor.path) as connection:
        connection.send(request(0, "initialize", {"protocol_version": "1.0", "daemon_id": "check"}))
        answer = connection.read()
    return bool(answer["id"] == 0 and not answer["result"]["tasks"])


class Gate:
    """A place where a script waits, for as long as the test likes."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._path = path

    @property
    def step(self) -> dict[str, Any]:
        """What the script does until it is let through; it says nothing."""
        return {"run": ["cat", str(self._path)]}

    async def open(self) -> None:
        """Wait until the script is there, and let it through."""
        async with asyncio.timeout(PATIENCE):
            while True:
                # Nobody can open it to write before somebody has opened it to read.
                with contextlib.suppress(OSError):
                    os.close(os.open(self._path, os.O_WRONLY | os.O_NONBLOCK))
                    return
                await asyncio.sleep(0.005)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """A place where a script of the test waits."""
    return Gate(tmp_path / "gate")


@pytest.fixture
def executor(_shared: Callable[[], ExecutorProcess]) -> ExecutorProcess:
    """An executor that other tests have used before and will use after: leave it in order."""
    return _shared()


@pytest.fixture
async def side(executor: ExecutorProcess) -> AsyncIterator[Daemon]:
    """A daemon connected to the shared executor, which acknowledges everything."""
    async with daemon(executor.path) as connected:
        yield connected

"""Our side of the feed group: the real daemon, with everything on but the starting of executors.

Executors are played by the load generator, at sockets of its own; the daemon connects to them as to
those that it starts. All else is as `agor daemon run` has it: the store synced with every commit,
tokens and sequences checked, the API behind its token. With `--no-store` the events of executors
are not stored, to be compared with servers that store nothing.

Usage: python -m bench.feed.ours [--no-store] FOLDER PORT
"""

import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from agor.config import Config, DatabaseConfig, LogConfig
from agor.daemon import main, process
from agor.daemon.pool.settings import Claim
from agor.daemon.pool.take_back import TakenBack
from agor.daemon.store.base import Write
from agor.daemon.store.tasks import RECEIVED
from agor.execution import ExecutionEnvironment, Host
from agor.home import Home
from agor.protocol.api import ExecutorInfo
from agor.rpc import unix

Commit = Callable[[Write], Awaitable[None]]

STORES = "--no-store" not in sys.argv
FOLDER, PORT = Path(sys.argv[-2]), int(sys.argv[-1])


class PlayedExecutors:
    """Executors at FOLDER/0.sock, FOLDER/1.sock and so on, in the order of their sessions."""

    kind = "played by the load generator"
    spares = 0

    def __init__(self, host: Host) -> None:
        self._host = host
        self._environments: list[ExecutionEnvironment] = []
        self._claimed = 0

    async def open(self) -> Sequence[TakenBack]:
        return []

    async def acquire(self, _: Claim) -> ExecutionEnvironment:
        name = str(self._claimed)
        self._claimed += 1
        connect = partial(unix.connect, FOLDER / f"{name}.sock")
        environment = await ExecutionEnvironment.create(name, self._host, connect)
        self._environments.append(environment)
        return environment

    def acquire_idle(self, _: Claim) -> None:
        return

    def has(self, *_: object) -> bool:
        return True

    def refuse_if_crowded(self, *_: object) -> None:
        return

    def release(self, *_: object) -> None:
        return

    async def stop(self, *_: object) -> None:
        return

    def describe(self) -> list[ExecutorInfo]:
        return []

    async def close(self, **_: object) -> None:
        for environment in self._environments:
            await environment.disconnect()


class Daemon(main.Daemon):
    """The daemon, with executors that are played."""

    def __init__(self, config: Config, home: Home) -> None:
        super().__init__(config, home)
        if not STORES:
            self.store.commit = forgetful(self.store.commit)  # type: ignore[method-assign,assignment]

    def _make_executors(self) -> PlayedExecutors:  # type: ignore[override]
        return PlayedExecutors(self.intake)


def forgetful(commit: Commit) -> Commit:
    """Take what executors stream for stored, and store the rest."""

    async def forget(write: Write) -> None:
        if any(sql != RECEIVED for sql, _ in write.statements):
            await commit(write)

    return forget


if __name__ == "__main__":
    process.Daemon = Daemon  # type: ignore[attr-defined]
    database = DatabaseConfig(url=f"sqlite:///{FOLDER}/events.db")
    config = Config(database=database, log=LogConfig(level="warning"))
    sys.exit(process.run(config, Home(FOLDER / "home"), port=PORT))

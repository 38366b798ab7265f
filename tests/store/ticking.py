"""Lets a test count out the ticks of a store: the speed of the machine does not matter then."""

from __future__ import annotations

from agor.daemon.store.sqlite.store import SqliteStore

#: Ticks after which a commit under way is a stall.
STALL = 6
#: Ticks without a sign of life after which the process is killed.
SILENCE = 11


class Ticks:
    """The ticks of an open store; none comes by itself any more."""

    def __init__(self, store: SqliteStore) -> None:
        self._scribe = store._scribe
        assert self._scribe._watching is not None
        self._scribe._watching.cancel()

    def pass_by(self, count: int) -> None:
        """Let some ticks pass in one turn of the loop, in which nothing is received."""
        for _ in range(count):
            self._scribe._stall.tick(waiting=self._scribe._tick())

"""The process that writes to SQLite: takes groups from its standard input, a socket, and answers.

    python -m agor.daemon.store.sqlite.writing

It is a process of its own so that the daemon's event loop never waits for the interpreter's lock
because of it. It ends when the daemon does, with what it is doing done, and by nothing else but a
kill: signals that end a daemon reach it too, and then the daemon still has something to store.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from agor.daemon.store.sqlite import faults
from agor.daemon.store.sqlite.checkpoints import Checkpoints
from agor.daemon.store.sqlite.file import DatabaseFile
from agor.daemon.store.sqlite.frames import (
    Answer,
    Availability,
    Done,
    Group,
    NotReady,
    Opening,
    Ready,
    Refusing,
    Said,
    Splitter,
    Trouble,
    Unreadable,
    frame,
    trouble,
)
from agor.daemon.store.sqlite.transaction import Refused
from agor.daemon.store.sqlite.writer import Writer
from agor.errors import StoreError

#: Seconds between two attempts to write while nothing can be written.
_PROBE_SECONDS = 1.0
_CHUNK = 256 * 1024


class Line:
    """The socket to the daemon. Two threads may talk; one listens."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._turn = threading.Lock()

    def tell(self, answer: Answer) -> None:
        """Tell the daemon something. If it is gone, nobody minds."""
        with self._turn:
            try:
                self._sock.sendall(frame(answer))
            except OSError:
                return

    def say(self, event: str, **members: Any) -> None:
        """Have the daemon put something into its log."""
        self.tell(Said(event, members))

    def receive(self) -> bytes:
        """Wait for the next bytes; none if the daemon is gone."""
        try:
            return self._sock.recv(_CHUNK)
        except OSError:
            return b""

    def has_more(self, timeout: float | None) -> bool:
        """Wait until there is something to receive, or for so long."""
        return bool(select.select([self._sock], [], [], timeout)[0])


def main() -> None:
    """Serve one daemon."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    line = Line(socket.socket(fileno=0))
    opening = _first(line)
    if opening is None:
        return
    file = DatabaseFile(Path(opening.path), opening.upkeep)
    file.expect(opening.identities)
    checkpoints = Checkpoints(file, line.say)
    writer = Writer(file, checkpoints, line.say)
    try:
        line.tell(Ready(writer.open()))
    except StoreError as error:
        line.tell(NotReady(trouble(error)))
        return
    except (sqlite3.Error, MemoryError) as error:
        line.tell(NotReady(trouble(faults.unavailable(error, file.path))))
        return
    checkpoints.start()
    _serve(line, writer)
    # At once, and without emptying the log: the next daemon may be waiting for our lock.
    os._exit(0)


def _first(line: Line) -> Opening | None:
    splitter: Splitter[Opening] = Splitter(Opening)
    while data := line.receive():
        for opening in splitter.feed(data):
            return opening
    return None


def _serve(line: Line, writer: Writer) -> None:
    for group in _groups(line, writer):
        refused = writer.commit(group, lambda some: line.tell(Refusing(_spelled(some))))
        line.tell(Done(_spelled(refused), writer.available))
        writer.tidy_up()


def _groups(line: Line, writer: Writer) -> Iterator[Group]:
    """Wait for groups until the daemon is gone, and look after the database meanwhile."""
    splitter: Splitter[Group] = Splitter(Group)
    while True:
        while not writer.available and not line.has_more(_PROBE_SECONDS):
            if writer.probe():
                line.tell(Availability(available=True))
        data = line.receive()
        if not data:
            return
        try:
            yield from splitter.feed(data)
        except msgspec.ValidationError:
            line.tell(Unreadable())


def _spelled(refused: Refused) -> dict[int, Trouble]:
    return {place: trouble(error) for place, error in refused.items()}


if __name__ == "__main__":
    main()

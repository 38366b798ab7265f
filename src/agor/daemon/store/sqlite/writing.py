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
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from agor import linux
from agor.daemon.store.sqlite import faults
from agor.daemon.store.sqlite.checkpoints import Checkpoints
from agor.daemon.store.sqlite.file import DatabaseFile
from agor.daemon.store.sqlite.frames import (
    Answer,
    Availability,
    Beat,
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


class Wire:
    """The socket to the daemon. Two threads may talk; one listens."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._turn = threading.Lock()

    def tell(self, answer: Answer) -> None:
        """Tell the daemon something; if that is not possible there is nothing more to do here.

        A daemon that lives learns from the database what became of its group.
        """
        with self._turn:
            try:
                self._sock.sendall(frame(answer))
            except OSError:
                os._exit(1)

    def beat(self) -> bool:
        """Send a sign of life; False if the daemon is gone. A commit under way is not cut off."""
        with self._turn:
            try:
                self._sock.sendall(frame(Beat()))
            except OSError:
                return False
        return True

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
    # As the daemon: what passes through here is nobody's business.
    linux.forbid_dumps()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wire = Wire(socket.socket(fileno=0))
    opening = _first(wire)
    if opening is None:
        return
    file = DatabaseFile(Path(os.fsdecode(opening.path)), opening.upkeep)
    file.identities = opening.identities
    threading.Thread(
        target=_beat, args=(wire, opening.upkeep.beat_seconds), name="agor-beat", daemon=True
    ).start()
    checkpoints = Checkpoints(file, wire.say)
    writer = Writer(file, checkpoints, wire.say, available=opening.available)
    try:
        wire.tell(Ready(writer.open()))
    except StoreError as error:
        wire.tell(NotReady(trouble(error)))
        return
    except (sqlite3.Error, MemoryError) as error:
        wire.tell(NotReady(trouble(faults.unavailable(error, file.path))))
        return
    checkpoints.start()
    _serve(wire, writer)
    # At once, and without emptying the log: the next daemon may be waiting for our lock.
    os._exit(0)


def _beat(wire: Wire, seconds: float) -> None:
    """Send signs of life, so that a process that waits for the disk is told from one that hangs."""
    while wire.beat():
        time.sleep(seconds)


def _first(wire: Wire) -> Opening | None:
    splitter: Splitter[Opening] = Splitter(Opening)
    while data := wire.receive():
        for opening in splitter.feed(data):
            return opening
    return None


def _serve(wire: Wire, writer: Writer) -> None:
    for group in _groups(wire, writer):
        refused = writer.commit(group, lambda some: wire.tell(Refusing(_spelled(some))))
        wire.tell(Done(_spelled(refused), writer.available))
        writer.tidy_up()


def _groups(wire: Wire, writer: Writer) -> Iterator[Group]:
    """Wait for groups until the daemon is gone, and look after the database meanwhile."""
    splitter: Splitter[Group] = Splitter(Group)
    while True:
        while not writer.available and not wire.has_more(_PROBE_SECONDS):
            if writer.probe():
                wire.tell(Availability(available=True))
        data = wire.receive()
        if not data:
            return
        try:
            yield from splitter.feed(data)
        except msgspec.ValidationError as error:
            wire.tell(Unreadable(str(error)))


def _spelled(refused: Refused) -> dict[int, Trouble]:
    return {place: trouble(error) for place, error in refused.items()}


if __name__ == "__main__":
    main()

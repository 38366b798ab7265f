"""Anchors: what the audit log was, kept outside of the database.

A chain alone does not show that its end was cut off, nor that all of it was written anew. So now
and then the daemon notes `number hash time` of the last record in `audit.anchors`, one line each,
synced. Whoever changes the log must change this file too; a copy of its last line elsewhere (paper
will do) shows even that.

An anchor that fits vouches for all records before it, so old ones that fit may be thinned out: they
only say since when something is wrong. One that does not fit stays for ever.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from agor import private
from agor.daemon.store.chain import Link
from agor.errors import BadInput

#: With more than so many the file is thinned out.
MOST = 4000
#: So many of the newest always stay.
_NEWEST = 1000
#: The file is never read further. `MOST` lines are a twentieth of it.
_MOST_BYTES = 8 * 1024 * 1024
_LINE = re.compile(rb"([0-9]{1,18}) ([0-9a-f]{64}) ([0-9T:.-]{10,40}Z)")


class Anchor(NamedTuple):
    """The end of the log at one time."""

    number: int
    hash: bytes
    #: When it was noted, as people write it.
    time: str

    @property
    def line(self) -> bytes:
        """Spell it as it stands in the file."""
        return b"%d %b %b\n" % (self.number, self.hash.hex().encode(), self.time.encode())


class AnchorFile:
    """The file `audit.anchors` of a home."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[Anchor]:
        """Give all anchors, in the order of the file; an unreadable line is an error."""
        anchors = []
        for place, line in enumerate(self._lines(), 1):
            found = _LINE.fullmatch(line)
            if found is None:
                raise BadInput(
                    f"line {place} of {self.path} is no anchor: the file was changed by hand",
                    hint="Put it back from a copy; or keep it under another name, and the daemon "
                    "begins a new one.",
                )
            number, digest, time = found.groups()
            anchors.append(Anchor(int(number), bytes.fromhex(digest.decode()), time.decode()))
        return anchors

    def append(self, link: Link) -> None:
        """Note the end of the log. Once this returns it outlives a power failure."""
        anchor = Anchor(link.number, link.hash, _now())
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fresh = not self.path.exists()
        with private.telling(self.path):
            fd = os.open(self.path, flags, 0o600)
            try:
                _end_line(fd)
                os.write(fd, anchor.line)
                os.fsync(fd)
            finally:
                os.close(fd)
            if fresh:
                private.sync_folder(self.path.parent)

    def write(self, anchors: Sequence[Anchor]) -> None:
        """Have these in the file and no others, or leave it as it is."""
        private.write(self.path, b"".join(anchor.line for anchor in anchors))

    def _lines(self) -> list[bytes]:
        """Give the whole lines; a last one that was cut off by a crash is none."""
        try:
            with self.path.open("rb") as file:
                data = file.read(_MOST_BYTES)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise BadInput(f"cannot read {self.path}: {error.strerror}") from error
        return data.split(b"\n")[:-1]


def to_spare(anchors: Sequence[Anchor]) -> list[Anchor]:
    """Name those that a file with too many can do without, if they fit: every other old one."""
    return list(anchors[:-_NEWEST][1::2]) if len(anchors) > MOST else []


def _end_line(fd: int) -> None:
    """Take away what a crash left of a line."""
    size = os.lseek(fd, 0, os.SEEK_END)
    tail = os.pread(fd, 256, max(0, size - 256))
    if tail and not tail.endswith(b"\n"):
        os.ftruncate(fd, size - len(tail) + tail.rfind(b"\n") + 1)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

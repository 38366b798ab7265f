"""The daemon's log, when it runs in the background: its end, what is added to it, its rotation."""

from __future__ import annotations

import codecs
import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from agor import private

#: Bytes from which on a log is put aside at the next start, to its one predecessor's place.
ROTATE_AT = 10 * 1024 * 1024
_BLOCK = 64 * 1024
#: Most bytes that are looked through for the last lines.
_FARTHEST = 16 * 1024 * 1024
_INTERVAL = 0.2


def open_log(path: Path) -> BinaryIO:
    """Open the log to add to it; a large one is put aside first."""
    with private.telling(path), contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > ROTATE_AT:
            path.replace(path.with_name(f"{path.name}.1"))
    return os.fdopen(private.open_to_write(path, os.O_WRONLY | os.O_APPEND), "wb")


def last_lines(path: Path, count: int, since: int = 0) -> tuple[str, int]:
    """Read the last lines of what was written after `since`; and tell where they end."""
    with path.open("rb") as file:
        end = at = file.seek(0, os.SEEK_END)
        data = b""
        first = max(since, end - _FARTHEST)
        while at > first and data.count(b"\n") <= count:
            start = max(first, at - _BLOCK)
            file.seek(start)
            data, at = file.read(at - start) + data, start
    lines = data.splitlines(keepends=True)[-count:] if count else []
    return b"".join(lines).decode(errors="replace"), end


def follow(path: Path, at: int) -> Iterator[str]:
    """Give what is added, for ever; a log that was put aside or emptied is begun anew."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    number = _number(path)
    while True:
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_ino != number or found.st_size < at:
                number, at = found.st_ino, 0
            file.seek(at)
            while data := file.read(_BLOCK):
                at += len(data)
                yield decoder.decode(data)
        time.sleep(_INTERVAL)


def _number(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None

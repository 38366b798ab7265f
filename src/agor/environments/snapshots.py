"""What was in a tree at one moment, and what changed between two moments."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import NamedTuple

from agor.environments.base import Change, FileInfo, FileKind

#: Files that are being written start with this; they are shown to nobody.
TEMPORARY = ".agor-write-"

_KINDS: dict[int, FileKind] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
    stat.S_IFLNK: "link",
}


class Mark(NamedTuple):
    """What tells one state of a path from another."""

    kind: FileKind
    size: int
    modified: float
    inode: int

    def differs(self, other: Mark) -> bool:
        """Tell whether it changed. A folder does not change with what is in it."""
        if self.kind == other.kind == "folder":
            return False
        return self != other

    def at(self, path: str) -> FileInfo:
        """Say it as an entry of a list."""
        return FileInfo(path, self.kind, self.size, self.modified)


def mark_of(status: os.stat_result) -> Mark:
    """Take the mark of what `lstat` found."""
    return Mark(kind_of(status.st_mode), status.st_size, status.st_mtime, status.st_ino)


def kind_of(mode: int) -> FileKind:
    """Say what a file is, by its mode."""
    return _KINDS.get(stat.S_IFMT(mode), "other")


def is_temporary(path: str) -> bool:
    """Tell whether this is a file that is just being written."""
    return path.rpartition("/")[2].startswith(TEMPORARY)


def differences(before: Mapping[str, Mark], after: Mapping[str, Mark]) -> list[Change]:
    """Say what changed between two moments, by path."""
    changes = []
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if new is None:
            changes.append(Change("deleted", path))
        elif old is None:
            changes.append(Change("added", path))
        elif old.differs(new):
            changes.append(Change("changed", path))
    return changes

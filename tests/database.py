"""A database with the schema and nothing in it, made once per process.

Migrating a new one takes longer than most tests, which are about other things than a first start.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from agor.daemon.store.sqlite.file import DatabaseFile

_NAME = "agor.db"


def put_database(home: Path) -> None:
    """Put one where the daemon of a home looks for it, if there is none yet."""
    path = home / _NAME
    if not path.exists():
        path.touch(0o600)
        path.write_bytes(_empty())


@functools.cache
def _empty() -> bytes:
    with tempfile.TemporaryDirectory(prefix="agor-") as folder:
        file = DatabaseFile(Path(folder) / _NAME)
        file.claim()
        file.prepare()
        file.release()
        assert not list(Path(folder).glob("*-wal")), "all of it is in one file"
        return file.path.read_bytes()

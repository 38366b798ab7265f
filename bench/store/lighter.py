"""The process that writes, as the product never has it: safe against kill -9, not a power cut."""

import sqlite3

from agor.daemon.store.sqlite.file import DatabaseFile
from agor.daemon.store.sqlite.writing import main

connect = DatabaseFile.connect


def connect_lightly(self: DatabaseFile) -> sqlite3.Connection:
    """Open a connection that does not sync each commit."""
    connection = connect(self)
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


if __name__ == "__main__":
    DatabaseFile.connect = connect_lightly  # type: ignore[method-assign]
    main()

"""From the setting `database.url` to a store."""

from __future__ import annotations

from pathlib import Path

from agor.daemon.store.base import Store
from agor.errors import BadConfig

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")


def connect(url: str) -> Store:
    """Make the store for a URL. Nothing is touched before its `open`."""
    # Each driver is imported only where it is used. The URL may hold a password: it is never shown.
    if url.startswith(_SQLITE) and len(url) > len(_SQLITE) and ":memory:" not in url:
        from agor.daemon.store.sqlite.store import SqliteStore

        return SqliteStore(Path(url.removeprefix(_SQLITE)).expanduser().absolute())
    if url.startswith(_POSTGRES):
        from agor.daemon.store.postgres.store import PostgresStore

        return PostgresStore(url)
    raise BadConfig(
        "database.url is neither sqlite:///PATH nor postgresql://…",
        hint="For example sqlite:////home/me/.agor/agor.db (an absolute path has a fourth slash) "
        "or postgresql://agor@localhost/agor.",
    )

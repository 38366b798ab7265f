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
    if (path := file_of(url)) is not None:
        from agor.daemon.store.sqlite.store import SqliteStore

        return SqliteStore(path)
    if is_postgres(url):
        from agor.daemon.store.postgres.store import PostgresStore

        return PostgresStore(url)
    raise bad_url()


def file_of(url: str) -> Path | None:
    """Tell the file of an SQLite URL; none if it is another one."""
    if url.startswith(_SQLITE) and len(url) > len(_SQLITE) and ":memory:" not in url:
        return Path(url.removeprefix(_SQLITE)).expanduser().absolute()
    return None


def is_postgres(url: str) -> bool:
    """Tell whether it is the URL of a PostgreSQL database."""
    return url.startswith(_POSTGRES)


def bad_url() -> BadConfig:
    """Say that nothing can be made of a URL."""
    return BadConfig(
        "database.url is neither sqlite:///PATH nor postgresql://…",
        hint="For example sqlite:////home/me/.agor/agor.db (an absolute path has a fourth slash) "
        "or postgresql://agor@localhost/agor.",
    )

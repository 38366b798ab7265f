"""What PostgreSQL's errors mean: the connection is gone, the server cannot, or a write is wrong."""

from __future__ import annotations

from typing import Any

import asyncpg  # type: ignore[import-untyped]

from agor.errors import StoreDamaged, StoreError, StoreUnavailable, StoreUnusable

#: Classes of SQLSTATE that say nothing about the statement: the same one may work later.
_OF_THE_SERVER = {
    "08": "The daemon connects again by itself.",
    "25": "The server takes no writes: it may be a standby.",
    "40": "Try again.",
    "53": "The server is out of disk, memory or connections; the daemon tries again.",
    "55": "Another program has locked what was needed.",
    "57": "The server is starting, stopping, or was told to end this connection.",
    "58": "Look at the server's disk and at its log.",
    "XX": "Look at the server's log.",
}
#: What was wrong before any statement of ours: nothing helps but another setting.
_OF_THE_SETTING = {
    "28": "Check the user and the password in database.url, and the server's pg_hba.conf.",
    "3D": "Make the database with createdb, or correct its name in database.url.",
    "42": "The user in database.url must own the database, or may create tables in its schema.",
}
#: A page of a table or of an index that cannot be read: the same statement fails again.
_OF_DAMAGE = ("XX001", "XX002")
_LOST = (OSError, TimeoutError, asyncpg.InternalClientError)


def _class(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")[:2]


def of_the_server(error: BaseException, connection: Any) -> bool:
    """Tell whether it is no fault of what was asked; the connection is the one it was asked on."""
    if isinstance(error, asyncpg.PostgresError):
        return _class(error) in _OF_THE_SERVER and error.sqlstate not in _OF_DAMAGE
    # asyncpg has one class for a connection that is gone and for a value that does not fit.
    return isinstance(error, _LOST) or connection is None or bool(connection.is_closed())


def unavailable(error: BaseException) -> StoreUnavailable:
    """Say in the server's own words why the database cannot be used now."""
    return StoreUnavailable(
        f"the PostgreSQL server cannot be used now: {_words(error)}",
        hint=_OF_THE_SERVER.get(
            _class(error), "See that it runs and can be reached; the daemon connects by itself."
        ),
    )


def refused(error: BaseException) -> StoreError:
    """Say why something can never be stored or read: damage, or a bug in whoever asked."""
    if getattr(error, "sqlstate", None) in _OF_DAMAGE:
        return StoreDamaged(
            f"a part of the database that is needed for this is damaged: {_words(error)}",
            hint="What does not need that part goes on. Look at the server's disk and log, and "
            "restore the database from a backup.",
        )
    return StoreError(
        f"the database refused a write: {_words(error)}",
        hint="Nothing of it was stored; other writes are not concerned.",
    )


def unusable(error: BaseException) -> StoreError:
    """Say why a database cannot be opened. The URL is not shown: it may hold a password."""
    if isinstance(error, asyncpg.PostgresError) and _class(error) in _OF_THE_SETTING:
        return StoreUnusable(
            f"the PostgreSQL database cannot be used: {_words(error)}",
            hint=_OF_THE_SETTING[_class(error)],
        )
    if isinstance(error, asyncpg.ClientConfigurationError | ValueError):
        return StoreUnusable(
            "database.url is not a PostgreSQL URL that can be used",
            hint="Its form is postgresql://USER:PASSWORD@HOST:PORT/DATABASE.",
        )
    return unavailable(error)


def _words(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]

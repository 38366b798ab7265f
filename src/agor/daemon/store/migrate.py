"""Bringing a database to the schema that this program works with.

Alembic is slow to import, so it is left alone when there is nothing to do: the revision is looked
up by the driver, and `needs_upgrade` says what it means. The caller holds the lock on the database.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agor.errors import StoreUnusable

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

#: The revision that the repositories are written for.
HEAD = "0005"
#: Where Alembic keeps the revision.
VERSION_TABLE = "alembic_version"

_SCRIPTS = Path(__file__).parent / "migrations"


def needs_upgrade(tables: set[str], revision: str | None) -> bool:
    """Tell from its tables and revision whether a database is up to date; raise if not ours."""
    if revision == HEAD:
        return False
    if revision is None:
        if tables - {VERSION_TABLE}:
            some = ", ".join(sorted(tables)[:3])
            raise StoreUnusable(
                f"the database is another program's: it has tables ({some}) and no agor schema",
                hint="Point database.url to an empty database, or to one that agor made.",
            )
        return True
    known = {path.name.partition("_")[0] for path in (_SCRIPTS / "versions").glob("[0-9]*.py")}
    if revision not in known:
        raise StoreUnusable(
            f"the database has schema {revision}, and this version of agor knows none after {HEAD}",
            hint="It was used by a newer agor: install that version or a later one. "
            "Nothing was changed.",
        )
    return True


def upgrade(connection: Connection) -> None:
    """Run the missing migrations, all or nothing."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, HEAD)

"""The one person of a home without accounts: its owner, who needs no set-up."""

from __future__ import annotations

import getpass

from agor.daemon.services.principal import Principal
from agor.daemon.services.stamps import new_id, now
from agor.daemon.store import users
from agor.daemon.store.base import Store, Write
from agor.daemon.store.rows import UserRow


async def owner(store: Store) -> Principal:
    """Find the owner; at the first start, write them down."""
    row = await users.first(store)
    if row is None:
        row = UserRow(
            user_id=new_id(), name=_name(), role="owner", unix_username=None, created_at=now()
        )
        await store.commit(Write([users.insert(row)]))
    return Principal(user_id=row.user_id, name=row.name, role=row.role)


def _name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "owner"

"""People: all of them in memory, since every request asks who somebody is.

The first one is the owner of the home, who is written down at the first start and needs no set-up.
"""

from __future__ import annotations

import getpass

from agor.daemon.services.principal import Principal
from agor.daemon.services.stamps import new_id, now
from agor.daemon.store import users
from agor.daemon.store.base import Store, Write
from agor.daemon.store.rows import UserRow
from agor.errors import Forbidden, NotFound
from agor.protocol.validation import quoted


class People:
    """Those who may use this daemon."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._by_id: dict[str, UserRow] = {}

    async def open(self) -> Principal:
        """Learn who there is; gives the owner of the home."""
        rows = await users.all_of(self._store)
        if not rows:
            owner = UserRow(
                user_id=new_id(), name=_name(), role="owner", unix_username=None, created_at=now()
            )
            await self._store.commit(Write([users.insert(owner)]))
            rows = [owner]
        self._by_id = {row.user_id: row for row in rows}
        return principal(rows[0])

    def get(self, user_id: str) -> UserRow:
        """Find somebody; raises `NotFound`."""
        row = self._by_id.get(user_id)
        if row is None:
            raise NotFound(f"there is no user {quoted(user_id)}")
        return row

    def check_enabled(self, *user_ids: str) -> None:
        """Refuse to work for those who are disabled."""
        for user_id in user_ids:
            row = self.get(user_id)
            if row.disabled_at is not None:
                raise Forbidden(
                    f"the account of {row.name} is disabled",
                    hint=f"An admin can enable it: agor user enable {row.name}",
                )

    def unix_username(self, user_id: str) -> str | None:
        """Tell which Unix user somebody is, if any."""
        return self.get(user_id).unix_username


def principal(row: UserRow) -> Principal:
    """Make of a person who they are to the services."""
    return Principal(user_id=row.user_id, name=row.name, role=row.role)


def _name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "owner"

"""People: all of them in memory, since every request asks who somebody is.

The first one is the owner of the home, who is written down at the first start and needs no set-up.
What is done to them is in `accounts`; how they come in, in `api_tokens` and `sign_ins`.
"""

from __future__ import annotations

import asyncio
import getpass
import re
from collections.abc import Callable, Sequence

import structlog

from agor.daemon.services.principal import Principal
from agor.daemon.services.stamps import new_id, time_of
from agor.daemon.store import users
from agor.daemon.store.base import Store, Write
from agor.daemon.store.rows import UserRow
from agor.errors import Forbidden, NotFound
from agor.protocol.validation import quoted

log = structlog.get_logger("agor.people")

_LONGEST_NAME = 64


class People:
    """Those who may use this daemon."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._by_id: dict[str, UserRow] = {}
        self._by_name: dict[str, str] = {}
        self._owner_id = ""
        #: Held by whoever changes a person or ends a way in: one decides at a time.
        self.turn = asyncio.Lock()
        #: Told, after it is stored, of each person who was disabled or enabled, or whose role or
        #: Unix user is another now: as they were, and as they are.
        self.on_change: list[Callable[[UserRow, UserRow], None]] = []
        #: Told of each token and sign-in that has ended, by its id.
        self.on_revoked: list[Callable[[str], None]] = []

    async def open(self) -> Principal:
        """Learn who there is; gives the owner of the home."""
        rows = await users.all_of(self._store)
        if not rows:
            user_id = new_id()
            owner = UserRow(
                user_id=user_id,
                name=_name(),
                role="owner",
                unix_username=None,
                created_at=time_of(user_id),
            )
            await self._store.commit(Write([users.insert(owner)]))
            rows = [owner]
        for row in rows:
            self.put(row)
        self._owner_id = rows[0].user_id
        return principal(rows[0])

    # ── looking ──────────────────────────────────────────────────────────────────────────────

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

    def as_now(self, who: Principal) -> Principal:
        """Tell who somebody is by now, who had to wait; refuses those who are disabled."""
        self.check_enabled(who.user_id)
        return principal(self.get(who.user_id), who.via)

    def named(self, name: str) -> UserRow | None:
        """Find somebody by name, however it is capitalised."""
        user_id = self._by_name.get(normal(name))
        return None if user_id is None else self._by_id[user_id]

    def everybody(self) -> list[UserRow]:
        """List everybody; who was there first comes first."""
        return sorted(self._by_id.values(), key=lambda row: (row.created_at, row.user_id))

    def unix_username(self, user_id: str) -> str | None:
        """Tell which Unix user somebody is, if any."""
        return self.get(user_id).unix_username

    def enabled(self, user_id: str) -> UserRow | None:
        """Find somebody who may come in."""
        row = self._by_id.get(user_id)
        return None if row is None or row.disabled_at is not None else row

    @property
    def home_owner(self) -> str:
        """The id of the one that the local token stands for."""
        return self._owner_id

    @property
    def can_sign_in(self) -> bool:
        """Whether there is somebody who could come in from elsewhere."""
        return any(row.password_hash and row.disabled_at is None for row in self._by_id.values())

    # ── changing; what is stored already ─────────────────────────────────────────────────────

    def put(self, row: UserRow) -> None:
        """Know somebody as they are now."""
        self._by_id[row.user_id] = row
        self._by_name[normal(row.name)] = row.user_id

    def tell_changed(self, before: UserRow, row: UserRow) -> None:
        """Tell whoever has to do something about it."""
        _tell(self.on_change, before, row)

    def tell_revoked(self, way_id: str) -> None:
        """Tell whoever serves somebody who came by this token or sign-in."""
        _tell(self.on_revoked, way_id)


def normal(name: str) -> str:
    """Spell a name the one way that it is compared in."""
    return name.lower()


def principal(row: UserRow, via: str | None = None) -> Principal:
    """Make of a person who they are to the services."""
    return Principal(user_id=row.user_id, name=row.name, role=row.role, via=via)


def _tell(listeners: Sequence[Callable[..., None]], *what: object) -> None:
    for listener in listeners:
        try:
            listener(*what)
        except Exception:
            # It is stored already, and the others must hear of it, too.
            log.exception("listener_failed")


def _name() -> str:
    try:
        found = getpass.getuser()
    except (KeyError, OSError):
        found = ""
    return re.sub(r"[^a-z0-9._@-]", "-", normal(found))[:_LONGEST_NAME] or "owner"

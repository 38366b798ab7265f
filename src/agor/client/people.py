"""People and their tokens: `client.users`, `client.tokens`, and who one is."""

from __future__ import annotations

from collections.abc import AsyncIterator

from msgspec import UNSET, UnsetType

from agor.client.calls import Calls
from agor.client.ids import in_path
from agor.errors import NotFound
from agor.protocol.api import Page
from agor.protocol.people import (
    ApiToken,
    MadeToken,
    Me,
    NewPassword,
    NewToken,
    NewUser,
    Role,
    SignInCode,
    User,
    UserChange,
)
from agor.protocol.validation import quoted


class Users:
    """The users of a daemon."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def add(
        self,
        name: str,
        *,
        role: Role = "member",
        unix_username: str | None = None,
        password: str | None = None,
        dry_run: bool = False,
    ) -> User:
        """Add somebody; with `dry_run`, only check whether that is possible."""
        new = NewUser(name=name, role=role, unix_username=unix_username, password=password)
        query = {"dry_run": "true"} if dry_run else None
        return await self._calls.ask("POST", "/users", User, query=query, body=new)

    def list(self) -> AsyncIterator[User]:
        """List everybody; who was there first comes first."""
        return self._calls.list("/users", Page[User], {})

    async def named(self, name: str) -> User:
        """Find somebody by name; raises `NotFound`."""
        async for user in self.list():
            if user.name.lower() == name.lower():
                return user
        raise NotFound(f"there is no user {quoted(name)}", hint="See who there is: agor user list")

    async def get(self, user_id: str) -> User:
        """Show somebody."""
        return await self._calls.ask("GET", f"/users/{in_path(user_id)}", User)

    async def change(
        self,
        user_id: str,
        *,
        role: Role | UnsetType = UNSET,
        unix_username: str | UnsetType | None = UNSET,
        disabled: bool | UnsetType = UNSET,
    ) -> User:
        """Change somebody; what is not given stays."""
        change = UserChange(role=role, unix_username=unix_username, disabled=disabled)
        return await self._calls.ask("PATCH", f"/users/{in_path(user_id)}", User, body=change)

    async def set_password(
        self, user_id: str, password: str, *, current_password: str | None = None
    ) -> None:
        """Give somebody a password; every other sign-in of theirs ends."""
        new = NewPassword(password=password, current_password=current_password)
        await self._calls.ask("PUT", f"/users/{in_path(user_id)}/password", None, body=new)

    async def me(self) -> Me:
        """Tell who asks."""
        return await self._calls.ask("GET", "/auth/me", Me)

    async def sign_in_code(self) -> SignInCode:
        """Make a one-time code for a browser on the daemon's machine; with the local token only."""
        return await self._calls.ask("POST", "/auth/link", SignInCode)


class Tokens:
    """The tokens of whoever asks, or of another user."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def make(self, name: str, *, expires_at: int | UnsetType | None = UNSET) -> MadeToken:
        """Make a token, for 90 days if not told otherwise. It is shown this once."""
        new = NewToken(name=name, expires_at=expires_at)
        return await self._calls.ask("POST", "/tokens", MadeToken, body=new)

    def list(self, *, user_id: str | None = None) -> AsyncIterator[ApiToken]:
        """List tokens, the newest first."""
        return self._calls.list("/tokens", Page[ApiToken], {"user_id": user_id})

    async def revoke(self, token_id: str) -> None:
        """End a token at once."""
        await self._calls.ask("DELETE", f"/tokens/{in_path(token_id)}", None)

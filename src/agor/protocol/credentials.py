"""Credentials, as the daemon's HTTP interface takes and gives them. Values only ever go in."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from agor.protocol.api import Given, Name, Sent

#: Bytes of a value; nothing that is called a key is longer.
LONGEST_VALUE = 16 * 1024

_Value = Annotated[str, Meta(min_length=1, max_length=LONGEST_VALUE)]
_Url = Annotated[str, Meta(min_length=1, max_length=2048)]
_Agents = Annotated[list[Name], Meta(min_length=1, max_length=50)]


class NewCredential(Sent):
    """A key to keep, in the place of the one that has this name now."""

    value: _Value
    base_url: _Url | None = None
    agents: _Agents | None = None

    def __repr__(self) -> str:
        return f"NewCredential(value=…, base_url={self.base_url!r}, agents={self.agents!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("value", "…"), ("base_url", self.base_url), ("agents", self.agents)]


class Credential(Given):
    """A key that is kept, without its value."""

    name: str
    whose: Literal["own", "team"]
    #: Who stored it; null if they are gone.
    set_by: str | None
    #: Empty if the value is too short to show a part of it.
    last_four: str
    base_url: str | None
    #: Null if its name alone says which agents may have it.
    agents: list[str] | None
    created_at: int
    updated_at: int
    last_used_at: int | None


class NewRotation(Sent):
    """How to rotate."""

    #: There is no copy of a master key that is gone: begin a new one all the same.
    lost: bool = False


class Rotation(Given):
    """How far the credentials are on the newest version of the master key."""

    status: Literal["done", "running", "failed"]
    #: The newest version, and all that are at hand; null and none if there is no master key yet.
    version: int | None
    versions: list[int]
    #: How many credentials are sealed with it, and how many are not yet.
    sealed: int
    left: int
    #: What remains for a person to do.
    to_do: str | None

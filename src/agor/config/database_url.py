"""`database.url`: which databases there are, and how to show one without its password.

Only a URL of which it is certain where its password begins and ends is taken: what cannot be told
apart cannot be hidden.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from agor.config.kinds import Kind

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,20}(?=://)", re.IGNORECASE)
_PASSWORD_IN_QUERY = re.compile(r"([^&=]*password=)[^&]*", re.IGNORECASE)


class DatabaseUrl(Kind):
    """Where the database is. It may hold a password, so it is never shown as it is."""

    secret = True
    allowed = (
        "sqlite:///{home}/NAME, sqlite:////FULL/PATH, or postgresql://USER@HOST/NAME "
        "(with # / ? @ in a password written as %23 %2F %3F %40)"
    )

    def read(self, value: object) -> str:
        """Take a URL of which we surely know where the password is."""
        if not isinstance(value, str) or not value.isprintable():
            raise ValueError
        if value.startswith("sqlite:///"):
            path = value.removeprefix("sqlite:///")
            if not path.startswith(("{home}/", "/")) or path.endswith("/"):
                raise ValueError
            return value
        parts = urlsplit(value)
        after_host = parts.path + parts.query + parts.fragment
        if parts.scheme != "postgresql" or "#" in value or "@" in after_host or " " in value:
            raise ValueError
        # Looking at it raises a ValueError if it is no number.
        _ = parts.port
        return value

    def show(self, value: str) -> str:
        """Leave out the password."""
        return without_password(value)


def without_password(url: str) -> str:
    """Show a database's URL, without the password it may hold."""
    scheme, mark, rest = url.partition("://")
    if scheme == "sqlite":
        return url
    place, question, query = rest.partition("?")
    user, at, host = place.rpartition("@")
    if ":" in user:
        user = f"{user.partition(':')[0]}:***"
    query = _PASSWORD_IN_QUERY.sub(r"\1***", query)
    return f"{scheme}{mark}{user}{at}{host}{question}{query}"


def kind_of_url(url: str) -> str | None:
    """Tell the scheme of a URL, if it has one: as much of it as is safe to show."""
    found = _SCHEME.match(url)
    return found[0] if found else None

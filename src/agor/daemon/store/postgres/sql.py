"""SQL as PostgreSQL wants it: `$1` where the repositories write `?`."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=1024)
def translate(sql: str) -> str:
    """Number the places of the values. The repositories' SQL has no other question marks."""
    first, *rest = sql.split("?")
    return first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))

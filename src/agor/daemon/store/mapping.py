"""The SQL that follows from a row structure. Columns are named like its members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from agor.daemon.store.base import Row, Statement

R = TypeVar("R", bound=Struct)


def columns(kind: type[Struct], prefix: str = "") -> str:
    """List the columns of a row, in the order of its members."""
    return ", ".join(prefix + name for name in kind.__struct_fields__)


def insert(table: str, kind: type[Struct], key: str) -> str:
    """Write the statement that adds a row, or does nothing if its key is there already."""
    marks = ", ".join("?" * len(kind.__struct_fields__))
    return (
        f"INSERT INTO {table} ({columns(kind)}) VALUES ({marks})"  # noqa: S608 - names of ours
        f" ON CONFLICT ({key}) DO NOTHING"
    )


def values(row: Struct) -> Row:
    """List a row's values for `insert`; truth values are numbers in the database."""
    found = msgspec.structs.astuple(row)
    if bool in map(type, found):
        return tuple(int(value) if isinstance(value, bool) else value for value in found)
    return found


def reader(kind: type[R]) -> Callable[[Row], R]:
    """Make the function that turns a row as it was read into its structure."""
    names = kind.__struct_fields__

    def read(row: Row) -> R:
        members: dict[str, Any] = dict(zip(names, row, strict=True))
        return kind(**members)

    return read


def newest(
    source: str,
    conditions: list[tuple[str, Row]],
    key: tuple[str, str],
    before: Row | None,
    limit: int,
) -> Statement:
    """Select the newest rows that satisfy all conditions, in the descending order of `key`.

    `before` is the key of the last row of the previous page.
    """
    if before is not None:
        conditions = [*conditions, (f"({', '.join(key)}) < (?, ?)", before)]
    order = ", ".join(f"{column} DESC" for column in key)
    values: Row = sum((given for _, given in conditions), ())
    return Statement(
        f"{source}{where([condition for condition, _ in conditions])} ORDER BY {order} LIMIT ?",
        (*values, limit),
    )


def merged(pages: list[Statement], key: tuple[str, str], limit: int) -> Statement:
    """Select the newest rows of several `newest`: each of them reads no more than one page.

    One query with OR would sort everything that satisfies either condition.
    """
    if len(pages) == 1:
        return pages[0]
    parts = [f"SELECT * FROM ({page.sql}) AS page_{place}" for place, page in enumerate(pages)]  # noqa: S608
    order = ", ".join(f"{column} DESC" for column in key)
    values: Row = sum((page.values for page in pages), ())
    return Statement(f"{' UNION ALL '.join(parts)} ORDER BY {order} LIMIT ?", (*values, limit))


def where(conditions: list[str]) -> str:
    """Write the condition that all of these hold."""
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""

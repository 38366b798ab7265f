"""The SQL that follows from a row structure. Columns are named like its members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from agor.daemon.store.base import Row

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


def where(conditions: list[str]) -> str:
    """Write the condition that all of these hold."""
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""

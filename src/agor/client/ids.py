"""Ids in paths: nothing gets into a path that could lead elsewhere."""

from __future__ import annotations

import re

from agor.errors import NotFound
from agor.protocol.validation import quoted

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def in_path(thing: str) -> str:
    """Give an id back that can be one; raises `NotFound`."""
    if not _ID.fullmatch(thing):
        raise NotFound(f"there is no {quoted(thing)}: this cannot be an id")
    return thing

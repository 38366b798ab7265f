"""Times, as people say them: `2h`, `7d`, a date, a date with a time of day; and how long."""

from __future__ import annotations

import re
import time
from datetime import datetime

import typer

_AGO = re.compile(r"([0-9]{1,6}) *(s|m|min|h|d|w)(?: ago)?")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}


def moment(said: str | None) -> int | None:
    """Tell which time is meant, in milliseconds since 1970. For the options of commands."""
    if said is None:
        return None
    if said.strip() == "now":
        return _now()
    found = _AGO.fullmatch(said.strip().lower())
    if found is not None:
        return max(0, _now() - int(found[1]) * _SECONDS[found[2]] * 1000)
    try:
        # Without a zone it is meant as the clock on this wall shows it.
        return max(0, int(datetime.fromisoformat(said.strip()).timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        raise typer.BadParameter(
            f"{said!r} is no time. Say how long ago (30m, 2h, 7d), or when: "
            "2026-11-16, 2026-11-16T09:30, 2026-11-16T08:30Z."
        ) from None


def span(said: str | None) -> int | None:
    """Tell how long is meant, in milliseconds. For the options of commands."""
    found = None if said is None else _AGO.fullmatch(said.strip().lower())
    if said is None:
        return None
    if found is None or not int(found[1]):
        raise typer.BadParameter(f"{said!r} is no time. Say how long: 90s, 30m, 2h.")
    return int(found[1]) * _SECONDS[found[2]] * 1000


def shown(milliseconds: int) -> str:
    """Write a time as the clock on this wall shows it, to the second."""
    return datetime.fromtimestamp(milliseconds / 1000).strftime("%Y-%m-%d %H:%M:%S")  # noqa: DTZ006


def _now() -> int:
    return time.time_ns() // 1_000_000

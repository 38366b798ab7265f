"""What values a setting can have: how one is read, written down, shown, and what is allowed.

A kind reads what YAML gives, and what a person types or an environment variable holds (`parse`
makes the former of the latter). It refuses with a bare ValueError; `allowed` completes the sentence
"It must be …".
"""

# ruff: noqa: TRY004 - a value of another type is as wrong as any other
from __future__ import annotations

import ipaddress
import math
import re
import shlex
import string
from abc import ABC, abstractmethod
from typing import Any

_DIGITS = re.compile(r"[+-]?\d{1,19}")
_NUMBER = re.compile(r"[+-]?(\d{1,19}(\.\d{0,19})?|\.\d{1,19})")
_SIZE = re.compile(r"(\d{1,19}(?:\.\d{1,9})?)\s*([KMGT])(?:i?B)?", re.IGNORECASE)
_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*")
_MOST_NAMES = 100
_LONGEST_NAME = 256
_UNITS = {"T": 1 << 40, "G": 1 << 30, "M": 1 << 20, "K": 1 << 10}


class Kind(ABC):
    """The values that a setting can have."""

    #: Completes "It must be …".
    allowed: str
    #: Whether a value may hold something that is not to be shown.
    secret = False

    @abstractmethod
    def read(self, value: object) -> Any:
        """Check a value that YAML gave; ValueError if it is not allowed."""

    def parse(self, text: str) -> object:
        """Take what a person typed for what YAML would give; `read` checks it."""
        return text

    def show(self, value: Any) -> str:
        """Write a value as a person would."""
        return str(value)


class Flag(Kind):
    """Yes or no."""

    allowed = "true or false"

    def read(self, value: object) -> bool:
        """Take a boolean."""
        if not isinstance(value, bool):
            raise ValueError
        return value

    def parse(self, text: str) -> object:
        """Take the words."""
        return {"true": True, "false": False}.get(text.lower(), text)

    def show(self, value: bool) -> str:
        """Give the words."""
        return "true" if value else "false"


class Whole(Kind):
    """A whole number."""

    def __init__(self, low: int, high: int, unit: str = "") -> None:
        self._low, self._high = low, high
        self.allowed = f"a whole number{unit and f' of {unit}'} from {low} to {high}"

    def read(self, value: object) -> int:
        """Take an integer; true and false are none."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError
        if not self._low <= value <= self._high:
            raise ValueError
        return int(value)

    def parse(self, text: str) -> object:
        """Take decimal digits."""
        return int(text) if _DIGITS.fullmatch(text) else text


class Number(Kind):
    """A number that may have a fraction."""

    def __init__(self, low: float, high: float, unit: str = "") -> None:
        self._low, self._high = low, high
        self.allowed = f"a number{unit and f' of {unit}'} from {low:.12g} to {high:.12g}"

    def read(self, value: object) -> float:
        """Take any finite number."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError
        if not math.isfinite(value) or not self._low <= value <= self._high:
            raise ValueError
        return float(value)

    def parse(self, text: str) -> object:
        """Take a decimal number."""
        if _DIGITS.fullmatch(text):
            return int(text)
        return float(text) if _NUMBER.fullmatch(text) else text

    def show(self, value: float) -> str:
        """Leave out a fraction of zero."""
        return str(int(value)) if value.is_integer() else repr(value)


class Size(Kind):
    """Bytes, in units of 1024 if one is given."""

    def __init__(self, low: int, high: int) -> None:
        self._low, self._high = low, high
        self.allowed = (
            f"bytes, or 512M, 2G and the like, from {self.show(low)} to {self.show(high)}"
        )

    def read(self, value: object) -> int:
        """Take a number of bytes, or text with a unit."""
        if isinstance(value, str) and (found := _SIZE.fullmatch(value.strip())):
            size = int(float(found[1]) * _UNITS[found[2].upper()])
        elif isinstance(value, int) and not isinstance(value, bool):
            size = int(value)
        else:
            raise ValueError
        if not self._low <= size <= self._high:
            raise ValueError
        return size

    def parse(self, text: str) -> object:
        """Take digits for bytes."""
        return int(text) if _DIGITS.fullmatch(text) else text

    def show(self, value: int) -> str:
        """Use the largest unit that fits."""
        for unit, factor in _UNITS.items():
            if value and value % factor == 0:
                return f"{value // factor}{unit}"
        return str(value)


class Choice(Kind):
    """One of a few words."""

    def __init__(self, *words: str) -> None:
        self._words = words
        *others, last = words
        self.allowed = f"{', '.join(others)} or {last}" if others else last

    def read(self, value: object) -> str:
        """Take a word of the list."""
        if not isinstance(value, str) or value not in self._words:
            raise ValueError
        return value


class UserName(Kind):
    """The name of a Unix user. Whether there is one is found out when it is needed."""

    allowed = "the name of a Unix user"

    def read(self, value: object) -> str:
        """Take what can be a name, in a directory service too."""
        if not isinstance(value, str) or not re.fullmatch(r"[^\s:/-][^\s:/]{0,255}", value):
            raise ValueError
        if not value.isprintable():
            raise ValueError
        return value


class AgentName(Kind):
    """The name of an agent. Whether there is one is found out when it is asked for."""

    allowed = "the name of an agent: claude-code, codex, gemini, opencode, acp:COMMAND"

    def read(self, value: object) -> str:
        """Take what can be a name."""
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise ValueError
        if len(value) > _LONGEST_NAME:
            raise ValueError
        return value


class ListenAddress(Kind):
    """An address to listen on. Beyond this machine, that takes accounts; the daemon sees to it."""

    allowed = (
        "an address: 127.0.0.1, ::1 or localhost for this machine alone; another one, such as "
        "0.0.0.0, needs a user with a password"
    )

    def read(self, value: object) -> str:
        """Take an address or the one name that always means this machine."""
        if not isinstance(value, str):
            raise ValueError
        if value != "localhost":
            # ipaddress says why with a ValueError, too.
            ipaddress.ip_address(value)
        return value


class HostNames(Kind):
    """Names of machines, as browsers have them in an address."""

    allowed = "a list of names, such as agor.example.org, or none"

    def read(self, value: object) -> tuple[str, ...]:
        """Take names and addresses; without a port."""
        if not isinstance(value, (list, tuple)) or len(value) > _MOST_NAMES:
            raise ValueError
        if not all(isinstance(name, str) and _is_host(name) for name in value):
            raise ValueError
        return tuple(name.lower() for name in value)

    def parse(self, text: str) -> object:
        """Take them with commas in between."""
        return [] if text.lower() == "none" else [name.strip() for name in text.split(",")]

    def show(self, value: tuple[str, ...]) -> str:
        """Put commas in between."""
        return ", ".join(value) or "none"


def _is_host(name: str) -> bool:
    if _HOST_NAME.fullmatch(name):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class SocketTemplate(Kind):
    """Where the sockets of executors are."""

    allowed = "a path that starts with {runtime}/ or /, and has {id} in it and no other braces"

    def read(self, value: object) -> str:
        """Take a template that can be filled in."""
        if not isinstance(value, str) or not value.startswith(("{runtime}/", "/")):
            raise ValueError
        # Parsing says what is wrong with braces with a ValueError, too.
        parts = [part[1:] for part in string.Formatter().parse(value) if part[1] is not None]
        if ("id", "", None) not in parts or not value.isprintable():
            raise ValueError
        if any(part not in (("id", "", None), ("runtime", "", None)) for part in parts):
            raise ValueError
        return value


class FilePath(Kind):
    """Where a file is."""

    allowed = "a path that starts with {home}/ or /"

    def read(self, value: object) -> str:
        """Take what names a file, below the home or anywhere."""
        if not isinstance(value, str) or not value.isprintable() or value.endswith("/"):
            raise ValueError
        if not value.startswith(("{home}/", "/")):
            raise ValueError
        return value


class Command(Kind):
    """A command and its arguments, quoted as a shell would have them."""

    allowed = "a command with its arguments, quoted as in a shell"

    def read(self, value: object) -> str:
        """Take what can be divided into words; if it cannot, that is a ValueError, too."""
        if not isinstance(value, str) or not value.isprintable() or not shlex.split(value):
            raise ValueError
        return value


class Optional(Kind):
    """Another kind, or nothing."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self.allowed = f"{kind.allowed}, or none"
        self.secret = kind.secret

    def read(self, value: object) -> Any:
        """Take nothing, too."""
        return None if value is None else self._kind.read(value)

    def parse(self, text: str) -> object:
        """Take the word `none`, too."""
        return None if text.lower() == "none" else self._kind.parse(text)

    def show(self, value: Any) -> str:
        """Have a word for nothing."""
        return "none" if value is None else self._kind.show(value)

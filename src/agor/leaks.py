"""Looks for a secret in clear: in files, in processes, in what programs say.

It is looked for as it is and as programs spell it: base64, hexadecimal, escaped for JSON or for a
URL, in 16 bits a character. A part of it counts as well, if it is long enough to be no accident:
messages that quote something shorten it.

What is compressed or encrypted is not looked into.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

#: Characters of a part. A random one of this length is in no file by accident.
_PART = 16
_CHUNK = 4 * 1024 * 1024
_PROC = Path("/proc")


class Leak(NamedTuple):
    """A place where the secret is in clear, and how it is spelled there. It is not in here."""

    where: str
    spelling: str


class Seeker:
    """Looks for one secret, and remembers where it was and how much was looked at."""

    def __init__(self, secret: str) -> None:
        self._forms = _all_forms(secret)
        self._longest = max(len(form) for form in self._forms)
        self.leaks: list[Leak] = []
        #: `files`, `bytes`, `command lines`, `environments`, `texts`, and `unreadable …`.
        self.seen: Counter[str] = Counter()

    def look_at(self, where: str, data: bytes) -> None:
        """Look at bytes that somebody else got hold of: an answer, an event."""
        self.seen["texts"] += 1
        self._note(where, self._found_in(data))

    def look_at_file(self, path: Path) -> None:
        """Look at one file; a link or a device is left alone."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        except OSError:
            if not path.is_symlink() and not path.is_socket():
                self.seen["unreadable files"] += 1
            return
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return
            self.seen["files"] += 1
            before = b""
            found: set[str] = set()
            with contextlib.suppress(OSError):
                while chunk := file.read(_CHUNK):
                    self.seen["bytes"] += len(chunk)
                    # The end of the last one as well: it may lie across the two.
                    found |= self._found_in(before + chunk)
                    before = chunk[-self._longest :]
            self._note(str(path), found)

    def look_below(self, folder: Path) -> None:
        """Look at all files below a folder, and at their names; no link is followed."""
        for base, folders, files in os.walk(folder):
            names = os.fsencode("\n".join((*folders, *files)))
            self._note(f"names in {base}", self._found_in(names))
            for name in files:
                self.look_at_file(Path(base, name))

    def look_at_processes(self) -> None:
        """Look at every command line, and at every environment that we may read."""
        for folder in _PROC.iterdir():
            if folder.name.isdecimal():
                for name, kind in (("cmdline", "command lines"), ("environ", "environments")):
                    self._look_at_process(folder / name, kind)

    def _look_at_process(self, path: Path, kind: str) -> None:
        try:
            data = path.read_bytes()
        except PermissionError:
            self.seen[f"unreadable {kind}"] += 1
        except OSError:
            # It has ended.
            return
        else:
            self.seen[kind] += 1
            self._note(str(path), self._found_in(data))

    def _found_in(self, data: bytes) -> set[str]:
        return {spelling for form, spelling in self._forms.items() if form in data}

    def _note(self, where: str, spellings: set[str]) -> None:
        for spelling in sorted(spellings):
            if (leak := Leak(where, spelling)) not in self.leaks:
                self.leaks.append(leak)


def _all_forms(secret: str) -> dict[bytes, str]:
    """Spell the secret, and each part of it, in every way."""
    parts = [secret]
    if len(secret) >= 2 * _PART:
        parts += [secret[at : at + _PART] for at in range(0, len(secret) - _PART + 1, _PART)]
    forms: dict[bytes, str] = {}
    for part in parts:
        for spelling, form in _spellings(part):
            forms.setdefault(form, spelling)
    return forms


def _spellings(text: str) -> Iterator[tuple[str, bytes]]:
    plain = text.encode()
    yield "as it is", plain
    # Without its last byte it is found in either order of bytes.
    yield "in 16 bits a character", text.encode("utf-16-le")[:-1]
    for form in _in_base64(plain):
        yield "base64", form
        yield "base64", form.replace(b"+", b"-").replace(b"/", b"_")
    yield "hexadecimal", plain.hex().encode()
    yield "hexadecimal", plain.hex().upper().encode()
    yield "escaped for JSON", json.dumps(text)[1:-1].encode()
    yield "escaped for JSON", json.dumps(text, ensure_ascii=False)[1:-1].encode()
    yield "escaped for JSON", "".join(f"\\u{ord(sign):04x}" for sign in text).encode()
    yield "escaped for a URL", quote(text, safe="").encode()
    for pattern in ("%{:02X}", "%{:02x}"):
        yield "escaped for a URL", "".join(pattern.format(byte) for byte in plain).encode()
    yield "as Python writes it", repr(text)[1:-1].encode()


def _in_base64(plain: bytes) -> Iterator[bytes]:
    """Spell it as it looks inside something longer: it may begin at any of three places."""
    for offset in range(3):
        # Only those characters that depend on nothing before or behind it.
        first = -(-offset * 8 // 6)
        last = (offset + len(plain)) * 8 // 6
        yield base64.b64encode(bytes(offset) + plain + bytes(2))[first:last]

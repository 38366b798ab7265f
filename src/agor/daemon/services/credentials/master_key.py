"""The master key: what credentials are sealed with, in all versions that are still in use.

As text it is one `VERSION:KEY` after the other, the newest first, with white space or commas
between them; a key is 32 random bytes in base64. One key alone, without its number, is version 1.
Lines that begin with `#` say nothing.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections.abc import Collection, Mapping
from typing import Self

from agor.errors import MasterKeyUnusable

#: Bytes of a key: AES-256.
_SIZE = 32
#: More text than any master key has, and more versions than are ever in use at once.
MOST_TEXT = 64 * 1024
_MOST_VERSIONS = 500
_ENTRY = re.compile(r"(?:(?P<version>[1-9][0-9]{0,9}):)?(?P<key>[A-Za-z0-9+/_-]{43}=?)")
_ABOUT = """\
# The master key of agor's credentials, the newest version first. Without it nobody can open them:
# keep a copy of it, and not beside the copies of the database.
"""
_FORM = (
    "It is VERSION:KEY, the newest version first; a key is 32 bytes in base64, as "
    "`openssl rand -base64 32` makes them."
)


class MasterKey:
    """Keys by version. It never changes; a rotation makes another one."""

    def __init__(self, versions: Mapping[int, bytes]) -> None:
        assert versions, "a master key has one version at least"
        self._versions = dict(sorted(versions.items(), reverse=True))

    @classmethod
    def fresh(cls, version: int = 1) -> Self:
        """Make one with a single version."""
        return cls({version: secrets.token_bytes(_SIZE)})

    def __repr__(self) -> str:
        return f"MasterKey(versions {', '.join(map(str, self._versions))})"

    def __contains__(self, version: int) -> bool:
        return version in self._versions

    @property
    def newest(self) -> int:
        """The version that new credentials are sealed with."""
        return next(iter(self._versions))

    @property
    def versions(self) -> list[int]:
        """All of them, the newest first."""
        return list(self._versions)

    def bytes_of(self, version: int) -> bytes:
        """Give the key itself."""
        return self._versions[version]

    def with_next(self, after: int = 0) -> MasterKey:
        """Add a new version; its number is higher than all, and than `after`."""
        number = max(self.newest, after) + 1
        return MasterKey({number: secrets.token_bytes(_SIZE), **self._versions})

    def only(self, versions: Collection[int]) -> MasterKey:
        """Let go of all versions but these and the newest."""
        kept = {*versions, self.newest}
        return MasterKey({each: key for each, key in self._versions.items() if each in kept})

    def spell(self) -> str:
        """Write it as a file has it."""
        lines = (
            f"{version}:{base64.b64encode(key).decode()}\n"
            for version, key in self._versions.items()
        )
        return _ABOUT + "".join(lines)


def parse(text: str, where: str) -> MasterKey:
    """Read a master key; what is wrong with it is said without repeating anything of it."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    entries = " ".join(lines).replace(",", " ").split()
    if not entries:
        raise MasterKeyUnusable(f"{where} holds no master key", hint=_FORM)
    if len(entries) > _MOST_VERSIONS:
        raise MasterKeyUnusable(f"{where} holds too many versions of the master key", hint=_FORM)
    versions: dict[int, bytes] = {}
    for number, entry in enumerate(entries, 1):
        found = _ENTRY.fullmatch(entry)
        key = None if found is None else _decode(found["key"])
        if found is None or key is None or (found["version"] is None and len(entries) > 1):
            raise MasterKeyUnusable(f"{where}: entry {number} is no master key", hint=_FORM)
        version = int(found["version"] or 1)
        if versions and version >= min(versions):
            raise MasterKeyUnusable(
                f"{where}: version {version} is not where it belongs", hint=_FORM
            )
        versions[version] = key
    return MasterKey(versions)


def _decode(text: str) -> bytes | None:
    plain = text.replace("-", "+").replace("_", "/").rstrip("=") + "="
    try:
        key = base64.b64decode(plain, validate=True)
    except binascii.Error:
        return None
    return key if len(key) == _SIZE else None

"""The copy of the master key in a backup: it opens every credential of the copied database.

A rotation may change the file while the database is copied. It stores a new version before it
seals anything with it, and drops an old one when nothing is sealed with it any more. So a version
that the copy needs was in the file before the copy was made, or is in it afterwards.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from agor.daemon.services.credentials.master_key import MasterKey, parse
from agor.errors import BackupFailed


class KeyFile:
    """The file of the master key, as it was before the database was copied."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._before = read(path)

    def for_versions(self, needed: Collection[int]) -> bytes | None:
        """Return a file that has all of these versions; None if there is none and none is needed.

        Raises `BackupFailed` if one is missing, `MasterKeyUnusable` if the file cannot be read.
        """
        if not needed:
            return self._before
        known = self._versions(self._before)
        if known.keys() >= set(needed):
            return self._before
        known |= self._versions(read(self._path))
        missing = sorted(set(needed) - known.keys())
        if missing:
            raise BackupFailed(
                f"credentials are sealed with version {', '.join(map(str, missing))} of the master "
                f"key, and {self._path} does not have it",
                hint="Put it back from your copy; or store these credentials anew (agor credential "
                "set); or leave out --include-master-key, and keep a copy of the key by hand.",
            )
        return MasterKey(known).spell().encode()

    def _versions(self, data: bytes | None) -> dict[int, bytes]:
        if data is None:
            return {}
        key = parse(data.decode("ascii", "replace"), str(self._path))
        return {version: key.bytes_of(version) for version in key.versions}


def read(path: Path) -> bytes | None:
    """Read a file of the home; None if there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BackupFailed(f"cannot read {path}: {error.strerror}") from error

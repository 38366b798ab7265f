"""PostgreSQL's own programs: where they are, whether they fit the server, and how they log in.

No password is in an argument or a variable: they read it from a file that only we can read.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from agor.errors import BackupFailed

_VERSION = re.compile(r"\(PostgreSQL\) ([0-9]+)")
#: Seconds to print a version.
_PATIENCE = 20.0
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")


class Tools:
    """The programs of one version of PostgreSQL."""

    def __init__(self, folder: Path, version: int) -> None:
        self._folder = folder
        self.version = version

    @classmethod
    async def find(cls, server: int) -> Tools:
        """Find those that fit a server best: of its version, else of the next newer one."""
        folders = {Path(entry) for entry in os.environ.get("PATH", os.defpath).split(":") if entry}
        folders |= set(Path("/usr/lib/postgresql").glob("*/bin"))
        found: dict[int, Path] = {}
        for folder in sorted(folders):
            if all(shutil.which(name, path=folder) for name in ("pg_dump", "pg_restore", "psql")):
                version = await _version(folder / "pg_dump")
                if version is not None:
                    found.setdefault(version, folder)
        fitting = min((version for version in found if version >= server), default=None)
        if fitting is not None:
            return cls(found[fitting], fitting)
        have = f"here is only version {max(found)}" if found else "there is none here"
        raise BackupFailed(
            f"the server is PostgreSQL {server}; this needs pg_dump, pg_restore and psql of version"
            f" {server} or later, and {have}",
            hint=f"On Debian and Ubuntu: apt install postgresql-client-{server}; on Fedora: "
            "dnf install postgresql. They must be on PATH.",
        )

    def program(self, name: str) -> str:
        """Give the path of a program."""
        return str(self._folder / name)


async def _version(program: Path) -> int | None:
    try:
        process = await asyncio.create_subprocess_exec(
            program, "--version", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            stdin=asyncio.subprocess.DEVNULL, env=_environment(),
        )  # fmt: skip
    except OSError:
        return None
    try:
        async with asyncio.timeout(_PATIENCE):
            printed, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return None
    found = _VERSION.search(printed.decode(errors="replace"))
    return int(found[1]) if found else None


@contextlib.contextmanager
def login(url: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Give a URL without the password and the environment with which programs can log in."""
    bare, password = _split(url)
    with tempfile.TemporaryDirectory(prefix="agor-") as folder:
        env = _environment()
        if password is not None:
            file = Path(folder, "pgpass")
            file.touch(0o600)
            escaped = password.replace("\\", "\\\\").replace(":", "\\:")
            file.write_text(f"*:*:*:*:{escaped}\n", encoding="utf-8")
            env["PGPASSFILE"] = str(file)
        yield bare, env


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    # Also what people have set to reach the server without a URL: not the password.
    return kept | {
        name: value
        for name, value in os.environ.items()
        if name.startswith("PG") and name != "PGPASSWORD"
    }


def _split(url: str) -> tuple[str, str | None]:
    """Take the password out of a URL."""
    parts = urlsplit(url)
    place, password = parts.netloc, None
    user, at, host = place.rpartition("@")
    if ":" in user:
        user, _, written = user.partition(":")
        place, password = f"{user}{at}{host}", unquote(written)
    query = []
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name == "password":
            password = value
        else:
            query.append((name, value))
    bare = urlunsplit((parts.scheme, place, parts.path, urlencode(query), ""))
    return bare, password

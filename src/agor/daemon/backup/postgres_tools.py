"""PostgreSQL's own programs: which ones fit the server, how they run, and how they log in.

They log in where the driver of the daemon does, and as the same user. No password is in an argument
or an environment: the programs read it from a file that only its owner can read.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from agor.daemon.backup.working_folder import working_folder
from agor.errors import BackupFailed

_VERSION = re.compile(r"\(PostgreSQL\) ([0-9]+)")
#: Seconds to print a version.
_PATIENCE = 20.0
#: All that the programs inherit. Of the variables of PostgreSQL, those that the driver reads too.
_INHERITED = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR"),
    *("PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGPASSFILE", "PGSERVICEFILE"),
    *("PGSSLMODE", "PGSSLNEGOTIATION", "PGSSLROOTCERT", "PGSSLCRL", "PGSSLKEY", "PGSSLCERT"),
    *("PGSSLMINPROTOCOLVERSION", "PGSSLMAXPROTOCOLVERSION"),
    *("PGTARGETSESSIONATTRS", "PGKRBSRVNAME", "PGGSSLIB"),
)
#: Parameters of a URL that the driver and the programs have in common. The driver sends any other
#: one to the server, as a setting.
_SHARED = frozenset(
    (
        *("host", "port", "user", "dbname", "passfile", "service", "options"),
        *("sslmode", "sslnegotiation", "sslcert", "sslkey", "sslrootcert", "sslcrl"),
        *("ssl_min_protocol_version", "ssl_max_protocol_version"),
        *("target_session_attrs", "krbsrvname", "gsslib"),
    )
)
#: Where the driver looks for a server if nothing says where it is.
_HOSTS = "/run/postgresql,/var/run/postgresql,/tmp,localhost"
#: Characters that have to be escaped in an argument of a server's command line.
_SPECIAL = re.compile(r"([\\\s])")


class Tools:
    """The programs of one version of PostgreSQL."""

    def __init__(self, folder: Path, version: int) -> None:
        self._folder = folder
        self.version = version

    @classmethod
    async def find(cls, server: int) -> Tools:
        """Find those that fit a server best: of its version, else of the next newer one."""
        on_path = [Path(entry) for entry in os.environ.get("PATH", os.defpath).split(":") if entry]
        found: dict[int, Path] = {}
        for folder in (*on_path, *sorted(Path("/usr/lib/postgresql").glob("*/bin"))):
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

    async def run(self, name: str, *arguments: str) -> bytes:
        """Run a program to its end, and return what it prints; it ends with this process."""
        process = await asyncio.create_subprocess_exec(
            self.program(name),
            *arguments,
            env=environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            printed, words = await process.communicate()
        except BaseException:
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            raise BackupFailed(f"{name} failed: {words.decode(errors='replace')[-2000:]}")
        return printed


async def _version(program: Path) -> int | None:
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            "--version",
            env=environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
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


def environment() -> dict[str, str]:
    """Return the environment of every program that is started: no secret is in it."""
    return {name: os.environ[name] for name in _INHERITED if name in os.environ}


@contextlib.contextmanager
def login(url: str) -> Iterator[str]:
    """Yield the URL with which the programs log in; it is valid until the block ends."""
    place, parameters, password = _read(url)
    if not password:
        yield _written(place, parameters)
        return
    if "\n" in password or "\r" in password:
        raise BackupFailed(
            "the password of the database has a line break, and the programs of PostgreSQL cannot "
            "read such a password from a file",
            hint="Give the user of the database another password.",
        )
    # Not beside the backup: libpq ignores this file if others could read it, and the file systems
    # of many USB drives and network shares have no permissions.
    temporary = Path(tempfile.gettempdir())
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(working_folder(temporary, "agor-login-"))
            file = folder / "pgpass"
            file.touch(0o600)
            escaped = password.replace("\\", "\\\\").replace(":", "\\:")
            file.write_text(f"*:*:*:*:{escaped}\n", encoding="utf-8")
        except OSError as error:
            raise BackupFailed(f"cannot write to {temporary}: {error.strerror}") from error
        yield _written(place, parameters | {"passfile": str(file)})


def _written(place: str, parameters: dict[str, str]) -> str:
    # urlunsplit would leave out the // before an empty host, and libpq does not decode "+".
    return f"postgresql://{place}?{urlencode(parameters, quote_via=quote)}"


def _read(url: str) -> tuple[str, dict[str, str], str | None]:
    """Split a URL into what is before its query, the parameters for libpq, and the password.

    The driver and libpq read some URLs differently. This reads them as the driver does, so that the
    programs connect to the database that the daemon uses.
    """
    parts = urlsplit(url)
    login, at, host = parts.netloc.rpartition("@")
    user, _, written = login.partition(":")
    given = dict(parse_qsl(parts.query))
    if "sslpassword" in given:
        raise BackupFailed(
            "database.url has the parameter sslpassword: the programs of PostgreSQL take it only "
            "as an argument, which every user of this machine could read",
            hint="Use a key without a password, in a file that only its owner can read, and remove "
            "sslpassword from database.url.",
        )
    queried = given.pop("password", None)
    password = unquote(written) or queried or os.environ.get("PGPASSWORD")
    # The driver ignores parameters for what is given before the query; libpq would prefer them.
    if host:
        given = _without(given, "host", "port")
    if user:
        given = _without(given, "user")
    if parts.path:
        given = _without(given, "dbname", "database")
    elif "database" in given:
        given = {"dbname": given["database"]} | _without(given, "database")
    if "service" not in given:
        # The defaults of the driver; those of libpq depend on how it was built.
        if not host and "PGHOST" not in os.environ:
            given.setdefault("host", _HOSTS)
        if not user and "PGUSER" not in os.environ:
            given.setdefault("user", getpass.getuser())
    place = f"{user}{at}{host}{parts.path}"
    return place, _with_options(given), password


def _without(parameters: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if name not in names}


def _with_options(given: dict[str, str]) -> dict[str, str]:
    """Move settings of the server into `options`, the arguments of the server's command line."""
    shared = {name: value for name, value in given.items() if name in _SHARED}
    options = [shared["options"]] if "options" in shared else []
    options += [
        "-c " + _SPECIAL.sub(r"\\\1", f"{name}={value}")
        for name, value in given.items()
        if name not in _SHARED
    ]
    return shared | {"options": " ".join(options)} if options else shared

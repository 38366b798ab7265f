"""A PostgreSQL server of the tests' own: unix socket only, killed and started at will.

It refuses to run as root, so as root it runs as `postgres`, or as `nobody` where there is none.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from tests.integration.unix_users import parent_of, wait_ended

_PATIENCE = 60.0
_READY = "ready to accept connections"
#: What a server says while the memory of a killed one is not given back.
_NOT_YET = "still in use"


def binaries() -> Path | None:
    """Find the newest PostgreSQL of this machine; None if there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_version)
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


def _version(initdb: Path) -> int:
    name = initdb.parent.parent.name
    return int(name) if name.isdecimal() else 0


class Said:
    """What a server writes to its standard error, read to its end: a full pipe would stop it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: deque[str] = deque(maxlen=100)
        self._ready = threading.Event()
        self._over = False
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self._lines.append(line)
                if _READY in line:
                    self._ready.set()
        self._over = not self._ready.is_set()
        self._ready.set()

    def is_ready(self) -> bool:
        """Wait until it takes connections; False if it ended instead."""
        assert self._ready.wait(_PATIENCE), self.words()
        return not self._over

    def words(self) -> str:
        return "".join(self._lines)


class PostgresServer:
    """One server and its data."""

    def __init__(self, bin_folder: Path, *, fsync: bool = False) -> None:
        self._bin = bin_folder
        #: Here processes are killed and the machine stays up: syncing would only take time.
        self._fsync = fsync
        self._folder = Path(tempfile.mkdtemp(prefix="agor-pg-", dir="/tmp"))
        self.data = self._folder / "data"
        self._said: Said
        self._process: subprocess.Popen[str] | None = None
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            names = {user.pw_name: user for user in pwd.getpwall()}
            found = names.get("postgres") or names["nobody"]
            os.chown(self._folder, found.pw_uid, found.pw_gid)
            self._user = {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}

    def create(self) -> None:
        """Make the data folder and start for the first time."""
        self._run("initdb", "-D", str(self.data), "-U", "agor", "-A", "trust", "-E", "UTF8",
                  "--locale=C", "--no-sync")  # fmt: skip
        self.start()

    def url(self, database: str) -> str:
        """Name a database of this server."""
        return f"postgresql://agor@/{database}?host={self._folder}"

    async def empty_database(self) -> str:
        """Make the one database empty, and cut off whoever is still connected to it."""
        connection = await asyncpg.connect(self.url("postgres"))
        try:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        finally:
            await connection.close()
        return self.url("postgres")

    def start(self) -> None:
        """Start the server, and return when it takes connections."""
        deadline = time.monotonic() + _PATIENCE
        while not self._try_to_start():
            assert time.monotonic() < deadline, self._said.words()

    def _try_to_start(self) -> bool:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self._folder),
            "shared_buffers": "16MB",
            "max_connections": "50",
            "fsync": "on" if self._fsync else "off",
        }
        options = [f"-c{name}={value}" for name, value in settings.items()]
        self._process = subprocess.Popen(
            [str(self._bin / "postgres"), "-D", str(self.data), *options],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self._folder,
            env={"LC_ALL": "C", "PATH": os.environ["PATH"]},
            **self._user,
        )
        self._said = Said(self._process)
        if self._said.is_ready():
            return True
        self._process.wait(_PATIENCE)
        assert _NOT_YET in self._said.words(), self._said.words()
        return False

    def kill(self) -> None:
        """Kill every process of the server at once, as a power cut would."""
        process = self._process
        assert process is not None
        children = [pid for pid in _processes() if _is_child(pid, process.pid)]
        process.kill()
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(_PATIENCE)
        for pid in children:
            wait_ended(pid)
        self._process = None

    def stop(self) -> None:
        """Stop the server, cutting off whoever is connected."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_PATIENCE)
            self._process = None

    def remove(self) -> None:
        """End the server and remove all of it."""
        if self._process is not None:
            self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._bin / program), *arguments],
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
            cwd=self._folder,
            **self._user,
        )
        assert done.returncode == 0, f"{program}: {done.stderr.strip()}"


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _is_child(pid: int, parent: int) -> bool:
    with contextlib.suppress(KeyError):
        return parent_of(pid) == parent
    return False

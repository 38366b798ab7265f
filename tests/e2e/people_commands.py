"""`agor` on a home of its own with a running daemon, for the commands that ask one."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.integration.control_groups import remove_groups
from tests.integration.processes import PATIENCE, Mark
from tests.nursery import run_agor


@contextlib.contextmanager
def with_daemon(command: Path, home: Path, **env: str) -> Iterator[Agor]:
    """Have the command with a running daemon, of which nothing is left in the end."""
    mark = Mark()
    agor = Agor(command, home, mark)
    agor.env |= env
    agor.done("daemon", "start", "--port", "0")
    yield agor
    agor("daemon", "stop", "--force")
    mark.end_all()
    remove_groups(home / "run")


class Agor:
    """The installed command, one home, and its daemon."""

    def __init__(self, command: Path, home: Path, mark: Mark) -> None:
        self.command = command
        self.home = home
        self.mark = mark
        self.env = {"AGOR_HOME": str(home), "AGOR_EXECUTION__ORPHAN_TIMEOUT_MS": "1000"}

    def __call__(
        self, *arguments: str, given: str = "", cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        env = self.mark.env | self.env
        return run_agor(*arguments, given=given, env=env, cwd=cwd, timeout=2 * PATIENCE)

    def done(self, *arguments: str, given: str = "", cwd: Path | None = None) -> str:
        """Run it, and expect that it succeeds; gives what it printed."""
        done = self(*arguments, given=given, cwd=cwd)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, *arguments: str, given: str = "") -> str:
        """Run it, and expect that it fails in words; gives those."""
        done = self(*arguments, given=given)
        assert (done.returncode, done.stdout) == (1, ""), done
        assert done.stderr.startswith("error: ")
        assert "Traceback" not in done.stderr
        return done.stderr

    @property
    def url(self) -> str:
        url: str = json.loads((self.home / "run" / "daemon.json").read_text())["url"]
        return url

    def users(self) -> dict[str, Any]:
        """Everybody, by name."""
        return {user["name"]: user for user in json.loads(self.done("user", "list", "--json"))}

    def sign_in(self, name: str, password: str) -> int:
        body = {"name": name, "password": password}
        return httpx.post(f"{self.url}/auth/login", json=body, trust_env=False).status_code

    def status_with(self, token: str) -> int:
        headers = {"authorization": f"Bearer {token}"}
        return httpx.get(f"{self.url}/auth/me", headers=headers, trust_env=False).status_code

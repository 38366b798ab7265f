"""A daemon with an account for Anna and one for Ben, each mapped to a Unix user of their own."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.integration.impersonation.daemon_site import Site
from tests.integration.processes import PATIENCE
from tests.integration.unix_users import TestUser

_DRIVER = Path(__file__).with_name("daemon_driver.py")


class PeopleSite:
    """The daemon, as its people see it."""

    def __init__(
        self,
        site: Site,
        process: subprocess.Popen[bytes],
        port: int,
        home: Path,
        tokens: dict[str, str],
    ) -> None:
        self.site = site
        self.process = process
        self.home = home
        self.port = port
        self.tokens = tokens
        self._url = f"http://127.0.0.1:{port}"

    def ask(self, who: str, method: str, at: str, /, **body: Any) -> httpx.Response:
        """Ask as somebody."""
        return httpx.request(
            method, self._url + at, json=body or None, timeout=PATIENCE, trust_env=False,
            headers={"authorization": f"Bearer {self.tokens[who]}"},
        )  # fmt: skip

    def made(self, who: str, at: str, /, **body: Any) -> dict[str, Any]:
        """Make something."""
        answer = self.ask(who, "POST", at, **body)
        assert answer.is_success, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def run(self, who: str, session_id: str, *command: str) -> tuple[dict[str, Any], str]:
        """Have a session's agent run a command; gives the task and what came of it."""
        script = json.dumps([{"run": list(command)}])
        task = self.made(who, f"/sessions/{session_id}/prompt", prompt=script)
        deadline = time.monotonic() + PATIENCE
        while (told := self.ask(who, "GET", f"/tasks/{task['task_id']}").json())[
            "ended_at"
        ] is None:
            assert time.monotonic() < deadline, told
        messages = self.ask(who, "GET", f"/sessions/{session_id}/messages").json()["items"]
        said = [
            each["text"]
            for each in messages
            if each["task_id"] == task["task_id"] and each["kind"] != "user_message"
        ]
        return told, "".join(said)


@contextlib.contextmanager
def people_site(site: Site, **config: Any) -> Iterator[PeopleSite]:
    """Run the daemon for as long as the block lasts."""
    home = site.folder / "home"
    machine = site.machine
    people = {"anna": ("member", machine.anna.name), "ben": ("member", machine.ben.name)}
    settings = {
        "execution.run_as_unix_user": True,
        "execution.spare_executors": 0,
        "database.url": f"sqlite:///{home}/agor.db",
        **config,
    }
    told = {"home": str(home), "people": people, "config": settings}
    with (site.folder.parent / f"{site.folder.name}.log").open("wb") as log:
        process = subprocess.Popen(
            [machine.python, "-c", _DRIVER.read_text()],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            env=site.env, cwd="/", umask=0o077, **site.become,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(told).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
            assert line, Path(log.name).read_text()
            answer = json.loads(line)
            yield PeopleSite(site, process, answer["port"], home, answer["tokens"])
        finally:
            process.stdin.close()
            process.wait(PATIENCE)
            process.stdout.close()
            Path(log.name).unlink()


def as_user(user: TestUser, *command: str, cwd: Path | None = None) -> str:
    """Run a command as a Unix user, as that person would by hand."""
    done = subprocess.run(
        command, cwd=cwd or user.home, capture_output=True, text=True, timeout=PATIENCE,
        user=user.uid, group=user.gid, extra_groups=list(user.groups), umask=0o022,
        env={"PATH": "/usr/bin:/bin", **user.login},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def repository_of(user: TestUser, folder: Path) -> Path:
    """Make a repository with one commit, as a person would."""
    script = (
        'git init -q -b main "$1" && cd "$1" && git config user.name X && '
        "git config user.email x@x && echo one > file && git add file && git commit -q -m one"
    )
    as_user(user, "sh", "-c", script, "sh", str(folder))
    return folder

"""Three Unix users, an installation that all can run, and a daemon's place on such a machine."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration import unix_users
from tests.integration.control_groups import remove_groups
from tests.integration.pool_process import PoolError, PoolProcess
from tests.integration.unix_users import TestUser


class Machine:
    """Three users and an installation that all of them can run."""

    def __init__(self, bin_folder: Path) -> None:
        self.python = bin_folder / "python"
        self.command = bin_folder / "agor-executor"
        self.team = unix_users.make_group("team")
        self.daemon = unix_users.make_user("daemon")
        self.anna = unix_users.make_user("anna", self.team)
        self.ben = unix_users.make_user("ben")

    def rule(self, user: TestUser, command: Path | None = None) -> str:
        """Spell the line that lets the daemon run executors as this user."""
        return f"{self.daemon.name} ALL=({user.name}) NOPASSWD: {command or self.command} *"

    @property
    def rules(self) -> list[str]:
        """What the daemon needs for both."""
        return [self.rule(self.anna), self.rule(self.ben)]


class Site:
    """A daemon's place on the machine: where its pool lives, and as whom."""

    def __init__(self, way: str, machine: Machine, folder: Path, log: Path) -> None:
        self.way = way
        self.machine = machine
        self.folder = folder
        self.canary = f"canary-{secrets.token_hex(16)}"
        self._log = log
        self._pools: list[PoolProcess] = []

    @property
    def env(self) -> dict[str, str]:
        """The environment of the daemon."""
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "AGOR_CANARY": self.canary}
        return env | ({"HOME": "/root"} if self.way == "setuid" else self.machine.daemon.login)

    @property
    def become(self) -> dict[str, Any]:
        """Keywords for Popen to become the daemon's user."""
        if self.way == "setuid":
            return {}
        daemon = self.machine.daemon
        return {"user": daemon.uid, "group": daemon.gid, "extra_groups": daemon.groups}

    def pool(self, **settings: Any) -> PoolProcess:
        """Start a pool; two pools after each other have the same folder."""
        settings = {"run_as_unix_user": True, "spare_executors": 0} | settings
        place = (self.machine.python, self.folder / "run", self._log)
        self._pools.append(PoolProcess(*place, env=self.env, become=self.become, **settings))
        return self._pools[-1]

    def clean_up(self) -> None:
        try:
            for pool in self._pools:
                # In order if it can be: a pool that was killed leaves cgroups to the next one.
                pool.end()
        finally:
            for user in (self.machine.anna, self.machine.ben, self.machine.daemon):
                unix_users.end_processes_of(user.uid)
            remove_groups(self.folder / "run")
            shutil.rmtree(self.folder)


@contextlib.contextmanager
def site_of(way: str, machine: Machine, log: Path) -> Iterator[Site]:
    parent = None if way == "setuid" else machine.daemon.home
    folder = Path(tempfile.mkdtemp(prefix="agor-test-", dir=parent))
    if way == "sudo":
        os.chown(folder, machine.daemon.uid, machine.daemon.gid)
    site = Site(way, machine, folder, log)
    try:
        yield site
    finally:
        site.clean_up()


def refused(pool: PoolProcess, **claim: Any) -> PoolError:
    with pytest.raises(PoolError) as error:
        pool.ask("acquire", **claim)
    return error.value

"""Two Unix users of one machine, each with a daemon of their own, with all settings at default."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.integration.control_groups import remove_groups
from tests.integration.impersonation.daemon_site import Machine
from tests.integration.processes import PATIENCE
from tests.integration.unix_users import TestUser, end_processes_of


class Person:
    """A Unix user who runs `agor`."""

    def __init__(self, machine: Machine, user: TestUser) -> None:
        self.user = user
        self._command = machine.python.with_name("agor")

    def agor(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._command, *arguments], cwd=self.user.home, stdin=subprocess.DEVNULL,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin"} | self.user.login | env,
            user=self.user.uid, group=self.user.gid, extra_groups=self.user.groups,
            capture_output=True, text=True, timeout=3 * PATIENCE,
        )  # fmt: skip

    def done(self, *arguments: str) -> str:
        done = self.agor(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def leave(self) -> None:
        self.agor("daemon", "stop", "--force")
        end_processes_of(self.user.uid)
        remove_groups(self.user.home / ".agor" / "run")


@pytest.fixture
def people(machine: Machine) -> Iterator[tuple[Person, Person]]:
    both = Person(machine, machine.anna), Person(machine, machine.ben)
    yield both
    for each in both:
        each.leave()


def test_both_run_agents_at_the_same_time(people: tuple[Person, Person]) -> None:
    anna, ben = people
    for person in people:
        said = person.done("run", "--agent", "scripted", f"hello {person.user.name}")
        assert said.startswith(f"hello {person.user.name}\n")
    assert anna.done("daemon", "url") != ben.done("daemon", "url")
    for person, other in ((anna, ben), (ben, anna)):
        listed = person.done("session", "list")
        assert f"hello {person.user.name}" in listed
        assert f"hello {other.user.name}" not in listed
        for path in (person.user.home / ".agor").iterdir():
            assert path.stat().st_uid == person.user.uid
            assert not path.stat().st_mode & 0o077


def test_a_home_of_somebody_else_is_refused_and_starts_nothing(
    people: tuple[Person, Person],
) -> None:
    anna, ben = people
    anna.done("session", "list")
    url = anna.done("daemon", "url")
    told = ben.agor("session", "list", AGOR_HOME=str(anna.user.home / ".agor"))
    assert told.returncode == 1
    assert "Permission denied" in told.stderr
    assert "Traceback" not in told.stderr
    assert anna.done("daemon", "url") == url

"""Who gets no executor, and in which words; it never runs as the daemon's user instead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.integration.impersonation.daemon_site import Machine, Site, refused
from tests.integration.unix_users import TestUser, may_sudo, processes_of, sudo_rules


def test_a_person_without_a_unix_user_is_refused(site, pool):
    error = refused(pool, session="a", user="carla")
    assert error.code == "impersonation_refused"
    assert "carla" in error.message
    assert "execution.executor_unix_user" in (error.hint or "")
    assert list((pool.runtime / "launchers").iterdir()) == []


def test_a_person_without_a_unix_user_gets_the_one_for_such_people(site, ben):
    pool = site.pool(executor_unix_user=ben.name)
    pool.ask("open")
    assert pool.ask("acquire", session="a", user="carla")["unix_user"] == ben.name
    assert pool.run("a", "id", "-un").strip() == ben.name


def test_a_unix_user_that_does_not_exist_is_refused(site, pool):
    error = refused(pool, session="a", unix_user="agor-no-such-user")
    assert error.code == "unknown_user"
    assert "agor-no-such-user" in error.message
    assert list((pool.runtime / "launchers").iterdir()) == []


def test_nobody_becomes_root_through_sudo(by_sudo, machine):
    with sudo_rules(f"{machine.daemon.name} ALL=(ALL) NOPASSWD: ALL"):
        pool = by_sudo.pool()
        pool.ask("open")
        assert refused(pool, session="a", unix_user="root").code == "impersonation_refused"


def assert_refused_for_want_of_a_rule(site: Site, machine: Machine, user: TestUser) -> None:
    """Refused, with the missing line; and nothing ran, least of all as the daemon's user."""
    pool = site.pool()
    pool.ask("open")
    error = refused(pool, session="a", unix_user=user.name)
    assert error.code == "impersonation_refused"
    assert user.name in error.message
    assert machine.rule(user) in (error.hint or "").splitlines()
    assert processes_of(machine.daemon.uid) == {pool.pid}
    assert processes_of(user.uid) == set()
    assert list((pool.runtime / "executors").iterdir()) == []
    # With the line that was shown it works, without a new start.
    with sudo_rules((error.hint or "").splitlines()[-1]):
        assert pool.ask("acquire", session="a", unix_user=user.name)["unix_user"] == user.name
    pool.close()
    assert processes_of(user.uid) == set()


def test_without_a_sudo_rule_it_is_refused_with_the_line_to_add(by_sudo, machine, anna):
    assert_refused_for_want_of_a_rule(by_sudo, machine, anna)


@pytest.mark.parametrize("of", ["another command", "another user", "a password", "no argument"])
def test_a_sudo_rule_that_is_not_enough_is_as_good_as_none(by_sudo, machine, anna, ben, of):
    rules = {
        "another command": [machine.rule(anna, Path("/usr/bin/true"))],
        "another user": [machine.rule(ben)],
        # sudo lists this one without a password, as one rule asks for none; but it runs nothing.
        "a password": [
            machine.rule(anna).replace("NOPASSWD:", "PASSWD:"),
            machine.rule(anna, Path("/usr/bin/true")),
        ],
        "no argument": [machine.rule(anna).removesuffix("*") + '""'],
    }
    with sudo_rules(*rules[of]):
        assert_refused_for_want_of_a_rule(by_sudo, machine, anna)


def test_an_installation_that_the_user_cannot_read_is_told_apart_from_a_missing_rule(site, anna):
    folder = site.machine.command.parent
    os.chown(folder, 0, site.machine.daemon.gid)
    folder.chmod(0o750)
    try:
        pool = site.pool()
        pool.ask("open")
        error = refused(pool, session="a", unix_user=anna.name)
    finally:
        folder.chmod(0o755)
    assert error.code == "launcher_failed"
    assert "Permission denied" in error.message
    assert f"Can {anna.name} read and run {site.machine.command}?" in (error.hint or "")
    assert pool.ask("acquire", session="a", unix_user=anna.name)["unix_user"] == anna.name


def test_one_rule_for_a_group_of_people_is_enough(by_sudo, machine, anna):
    rule = f"{machine.daemon.name} ALL=(%{machine.team}) NOPASSWD: {machine.command} *"
    with sudo_rules(rule):
        assert may_sudo(machine.daemon, anna, machine.command)
        pool = by_sudo.pool()
        pool.ask("open")
        assert pool.ask("acquire", session="a", unix_user=anna.name)["unix_user"] == anna.name

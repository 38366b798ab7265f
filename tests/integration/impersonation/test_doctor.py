"""`agor doctor --as USER`, where there are other users and real sudo rules."""

from __future__ import annotations

import subprocess

from tests.integration.impersonation.daemon_site import Site
from tests.integration.processes import PATIENCE
from tests.integration.unix_users import TestUser, sudo_rules


def doctor(site: Site, *users: TestUser) -> subprocess.CompletedProcess[str]:
    """Let the doctor look, as the daemon's user."""
    wanted = [word for user in users for word in ("--as", user.name)]
    return subprocess.run(
        [site.machine.command.with_name("agor"), "doctor", *wanted],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd="/",
        env=site.env | {"AGOR_HOME": str(site.folder)},
        **site.become,
    )


def test_the_doctor_finds_all_well_where_it_is(site, anna, ben):
    done = doctor(site, anna, ben)
    assert done.returncode == 0, done.stdout
    way = "by setuid" if site.way == "setuid" else "through sudo"
    for user in (anna, ben):
        assert f"✓ {user.name}: executors can run as {user.name}, {way}" in done.stdout


def test_the_doctor_prescribes_the_line_that_is_missing(by_sudo, machine, anna, ben):
    with sudo_rules(machine.rule(ben)):
        done = doctor(by_sudo, anna, ben)
    assert done.returncode == 1
    assert f"✗ {anna.name}: cannot run executors as {anna.name}: sudo " in done.stdout
    assert f"✓ {ben.name}: " in done.stdout
    assert f"    {machine.rule(anna)}" in done.stdout.splitlines()
    with sudo_rules(machine.rule(anna)):
        assert doctor(by_sudo, anna).returncode == 0

"""Real users, real sudo. What takes `site` is tried both ways:

setuid: the daemon is root.  sudo: the daemon is a user of its own, with a rule for `agor-executor`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.integration import unix_users
from tests.integration.impersonation.daemon_site import Machine, Site, site_of
from tests.integration.pool_process import PoolProcess
from tests.integration.readable_installation import readable_installation
from tests.integration.unix_users import TestUser, may_sudo, sudo_rules


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    if os.geteuid() != 0:
        pytest.skip("needs root, to create Unix users")
    if shutil.which("sudo") is None:
        pytest.skip("needs sudo (apt-get install sudo)")
    unix_users.remove_all()
    try:
        with readable_installation() as bin_folder:
            yield Machine(bin_folder)
    finally:
        unix_users.remove_all()


@pytest.fixture(params=["setuid", "sudo"])
def site(request, machine, tmp_path) -> Iterator[Site]:
    """A daemon that may run executors as Anna and Ben."""
    rules = machine.rules if request.param == "sudo" else []
    with sudo_rules(*rules), site_of(request.param, machine, tmp_path / "log") as site:
        yield site


@pytest.fixture
def by_sudo(machine, tmp_path) -> Iterator[Site]:
    """A daemon that is not root, and has no sudo rule yet."""
    if may_sudo(machine.daemon, machine.anna, machine.command):
        pytest.skip("the sudoers file of this machine allows everybody everything")
    with site_of("sudo", machine, tmp_path / "log") as site:
        yield site


@pytest.fixture
def pool(site: Site) -> PoolProcess:
    pool = site.pool()
    pool.ask("open")
    return pool


@pytest.fixture
def anna(machine: Machine) -> TestUser:
    return machine.anna


@pytest.fixture
def ben(machine: Machine) -> TestUser:
    return machine.ben

"""Agents' programs, where other Unix users are to run them."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agor.catalogue import CATALOGUE, NpmPackage
from tests.integration.impersonation.daemon_site import Site
from tests.integration.processes import PATIENCE

SETTING = "AGOR_EXECUTION__AGENTS_FOLDER"


@pytest.fixture
def for_all() -> Iterator[Path]:
    """A folder that everybody can enter."""
    folder = Path(tempfile.mkdtemp(prefix="agor-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def put_codex_into(folder: Path) -> None:
    """Lay it out as an install does; the program only knows its version."""
    package = CATALOGUE["codex"].package
    assert isinstance(package, NpmPackage)
    modules = folder / "installed" / f"codex-{package.version}-x" / "node_modules"
    program = modules / ".bin" / "codex"
    about = modules / package.name / "package.json"
    for path in (program, about, folder / "bin" / "codex"):
        path.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\necho codex {package.version}\n")
    program.chmod(0o755)
    about.write_text(json.dumps({"version": package.version}))
    (folder / "bin" / "codex").symlink_to(program)


def agor(site: Site, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run it as the daemon's user."""
    return subprocess.run(
        [site.machine.command.with_name("agor"), *words],
        capture_output=True, text=True, timeout=2 * PATIENCE, cwd="/",
        env=site.env | {"AGOR_HOME": str(site.folder)} | env,
        **site.become,
    )  # fmt: skip


def test_in_a_private_home_nobody_else_can_run_them_and_the_doctor_has_the_setting(site, anna):
    put_codex_into(site.folder / "agents")
    for command in (("doctor",), ("agent", "check", "codex")):
        done = agor(site, *command, "--as", anna.name)
        assert done.returncode == 1, done.stdout
        path = site.folder / "agents" / "bin" / "codex"
        assert f"✗ codex as {anna.name}: {anna.name} cannot run {path}: " in done.stdout
        advice = [
            "    agor config set execution.agents_folder /opt/agor/agents",
            "    agor agent install codex",
            "    agor daemon restart",
        ]
        assert set(advice) <= set(done.stdout.splitlines())


def test_in_a_folder_that_all_can_read_everybody_can(site, anna, ben, for_all):
    put_codex_into(for_all / "agents")
    users = ("--as", anna.name, "--as", ben.name)
    done = agor(site, "doctor", *users, **{SETTING: str(for_all / "agents")})
    assert done.returncode == 0, done.stdout
    for user in (anna, ben):
        assert f"✓ codex as {user.name}: {user.name} can run it" in done.stdout


def test_a_folder_elsewhere_that_is_closed_is_told_with_the_mode_it_needs(site, anna, for_all):
    put_codex_into(for_all / "agents")
    if site.way == "sudo":
        shutil.chown(for_all / "agents", site.machine.daemon.uid, site.machine.daemon.gid)
    (for_all / "agents").chmod(0o700)
    done = agor(site, "doctor", "--as", anna.name, **{SETTING: str(for_all / "agents")})
    assert done.returncode == 1
    assert f"    {for_all / 'agents'} and all folders above must be open to others" in done.stdout


def test_whom_agents_run_as_by_the_configuration_is_tried_unasked(site, anna):
    put_codex_into(site.folder / "agents")
    config = {
        "AGOR_EXECUTION__RUN_AS_UNIX_USER": "true",
        "AGOR_EXECUTION__EXECUTOR_UNIX_USER": anna.name,
    }
    done = agor(site, "agent", "check", "codex", **config)
    assert done.returncode == 1
    assert f"✗ codex as {anna.name}: " in done.stdout
    assert "✗ codex as" not in agor(site, "agent", "check", "codex").stdout

"""What the doctor finds, and the sudoers line that it prescribes."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import agor
from agor.daemon.pool import doctor
from agor.daemon.pool.identities import sudoers_line
from agor.environments.identity import UnixIdentity

ADA = UnixIdentity("ada", 1234, 1235, (1235,), "/home/ada", "/bin/sh")
NOBODYS_UID = 2**31 - 7


@pytest.fixture
def not_root(monkeypatch) -> None:
    """Let us look like a user that is not root, and has no name."""
    monkeypatch.setattr(os, "geteuid", lambda: NOBODYS_UID)


@pytest.fixture
def folder(tmp_path_factory) -> Path:
    """A folder with a name that is short enough for sockets."""
    made: Path = tmp_path_factory.mktemp("d")
    return made


@pytest.fixture
def no_sudo(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def install(folder: Path, script: str) -> Path:
    """Make something that looks like an installation."""
    folder.mkdir(parents=True)
    command = folder / "agor-executor"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    return folder / "python"


# ── the installation and the folder ──────────────────────────────────────────────────────────────


def test_versions_are_told():
    found = doctor.check_installation()
    assert found.state == "ok"
    assert agor.__version__ in found.what
    assert f"Python {sys.version.split()[0]}" in found.what


def test_a_missing_program_is_a_problem(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    found = doctor.check_installation()
    assert found.state == "problem"
    assert str(tmp_path / "agor-executor") in found.what
    assert found.to_do


def test_a_folder_of_ours_alone_is_well(folder):
    folder.chmod(0o700)
    assert doctor.check_runtime(folder).state == "ok"


def test_a_folder_that_is_not_there_yet_is_well_and_stays_so(folder):
    assert doctor.check_runtime(folder / "a" / "run").state == "ok"
    assert list(folder.iterdir()) == []


def test_a_folder_that_others_can_enter_is_a_problem(folder):
    folder.chmod(0o755)
    found = doctor.check_runtime(folder)
    assert found.state == "problem"
    assert f"chmod 700 {folder}" in (found.to_do or "")


def test_a_folder_that_cannot_be_created_is_a_problem(folder):
    (folder / "file").touch()
    found = doctor.check_runtime(folder / "file" / "run")
    assert found.state == "problem"
    assert f"we cannot create it in {folder / 'file'}" in found.what


def test_a_folder_too_long_for_sockets_is_a_problem(tmp_path):
    found = doctor.check_runtime(tmp_path / ("x" * 100))
    assert found.state == "problem"
    assert "too long" in found.what


def test_what_enforces_limits_is_told(tmp_path):
    found = doctor.check_limits(tmp_path)
    assert found.state in ("ok", "warning")
    assert "enforce" in found.what


# ── users ────────────────────────────────────────────────────────────────────────────────────────


def test_we_ourselves_can_be_run_as(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(install(tmp_path / "bin", "exit 0")))
    found = doctor.check_user(pwd.getpwuid(os.geteuid()).pw_name)
    assert (found.state, found.to_do) == ("ok", None)


def test_a_user_that_does_not_exist_is_a_problem():
    found = doctor.check_user("agor-no-such-user")
    assert found.state == "problem"
    assert "'agor-no-such-user'" in found.what
    assert found.to_do


def test_a_program_that_fails_is_a_problem_with_its_last_words(tmp_path, monkeypatch):
    failing = "echo first >&2; echo no such module >&2; exit 1"
    monkeypatch.setattr(sys, "executable", str(install(tmp_path / "bin", failing)))
    found = doctor.check_user(pwd.getpwuid(os.geteuid()).pw_name)
    assert found.state == "problem"
    assert "no such module" in found.what


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_a_program_that_the_user_cannot_reach_is_a_problem(tmp_path, monkeypatch):
    python = install(tmp_path / "bin", "exit 0")
    tmp_path.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))
    found = doctor.check_user("nobody")
    assert found.state == "problem"
    assert "Permission denied" in found.what
    assert str(python.with_name("agor-executor")) in (found.to_do or "")


@pytest.mark.usefixtures("not_root", "no_sudo")
def test_without_sudo_other_users_are_a_problem_with_the_line_to_add():
    assert doctor.check_sudo().state == "warning"
    found = doctor.check_user("nobody")
    assert found.state == "problem"
    assert "no sudo" in found.what
    line = f"#{NOBODYS_UID} ALL=(nobody) NOPASSWD: {Path(sys.executable).parent}/agor-executor *"
    assert line in (found.to_do or "").splitlines()


@pytest.mark.usefixtures("no_sudo")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_needs_no_sudo():
    assert doctor.check_sudo().state == "ok"


# ── the line ─────────────────────────────────────────────────────────────────────────────────────


def test_the_line_names_who_we_are_whatever_the_environment_says(monkeypatch):
    for name in ("LOGNAME", "USER"):
        monkeypatch.setenv(name, "somebody-else")
    us = pwd.getpwuid(os.geteuid()).pw_name
    assert sudoers_line(ADA).startswith(f"{us} ALL=(ada) NOPASSWD: ")


@pytest.mark.skipif(shutil.which("cvtsudoers") is None, reason="needs sudo (apt-get install sudo)")
@pytest.mark.parametrize(
    "name", ["ada", "ADS\\ada", "ada@example.org", "a!(b)", "ada, or not: #1=x"]
)
@pytest.mark.parametrize("folder", ["/opt/agor", "/opt/a b,c:d=e#f/(g)@!", "/opt/ä"])
def test_sudo_reads_the_line_as_it_was_meant(monkeypatch, name, folder):
    monkeypatch.setattr(sys, "executable", f"{folder}/bin/python")
    line = sudoers_line(UnixIdentity(name, 1234, 1235, (1235,), "/", "/bin/sh"))
    done = subprocess.run(
        ["cvtsudoers", "-f", "json"],
        input=f"{line}\n",
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.returncode == 0, done.stderr
    [spec] = json.loads(done.stdout)["User_Specs"]
    [rule] = spec["Cmnd_Specs"]
    assert rule["runasusers"] == [{"username": name}]
    assert rule["Options"] == [{"authenticate": False}]
    assert rule["Commands"] == [{"command": f"{folder}/bin/agor-executor *"}]

"""A home that the daemon cannot write to: it says so in words, and what to do."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agor.home import Home
from tests.nursery import run_agor

Agor = Callable[..., str]


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that was used before; its name is short enough for sockets."""
    made: Path = tmp_path_factory.mktemp("d") / "h"
    Home(made).prepare()
    return made


@pytest.fixture
def agor(mark, home: Path) -> Iterator[Agor]:
    """Run a command that must fail, in words alone; gives them."""

    def run(*arguments: str, **env: str) -> str:
        done = run_agor(*arguments, env=mark.env | {"AGOR_HOME": str(home)} | env)
        assert done.returncode == 1, done.stdout
        assert "Traceback" not in done.stderr
        assert "error: " in done.stderr
        return done.stderr

    yield run
    mark.end_all()


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[str]:
    """Have a folder that cannot be written; gives the system's word for it."""
    folder.mkdir(exist_ok=True)
    if os.geteuid() != 0:
        folders = [folder, *(each for each in folder.rglob("*") if each.is_dir())]
        for each in folders:
            each.chmod(0o500)
        yield "Permission denied"
        for each in folders:
            each.chmod(0o700)
        return
    bind = ["mount", "--bind", str(folder), str(folder)]
    if subprocess.run(bind, capture_output=True, check=False).returncode:
        pytest.skip("this root may not mount anything")
    subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True, timeout=60)
    try:
        yield "Read-only file system"
    finally:
        subprocess.run(["umount", str(folder)], check=True, timeout=60)


@pytest.mark.parametrize(
    "command",
    [
        ("daemon", "run", "--port", "0"),
        ("daemon", "start", "--port", "0"),
        ("config", "set", "log.level", "debug"),
    ],
)
def test_a_home_that_cannot_be_written_is_named(home: Path, agor: Agor, command: tuple[str, ...]):
    with read_only(home) as why:
        told = agor(*command)
    assert str(home) in told
    assert why in told
    assert "AGOR_HOME" in told


def test_whether_a_daemon_runs_can_be_asked_all_the_same(mark, home: Path):
    (home / "run" / "daemon.lock").touch(0o600)
    with read_only(home):
        done = run_agor("daemon", "status", env=mark.env | {"AGOR_HOME": str(home)})
    assert done.returncode == 3, done.stderr


def test_a_full_disk_is_named(home: Path, agor: Agor):
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(home)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system can only be mounted by root, outside of most containers")
    try:
        Home(home).folder.chmod(0o700)
        Home(home).prepare()
        with contextlib.suppress(OSError), (home / "ballast").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        told = agor("daemon", "run", "--port", "0")
    finally:
        subprocess.run(["umount", str(home)], check=True, timeout=60)
    assert "No space left on device" in told
    assert "free some space" in told.lower()


def test_a_database_in_a_folder_that_cannot_be_written_is_named(
    home: Path, agor: Agor, tmp_path: Path
):
    with read_only(tmp_path / "data") as why:
        told = agor(
            "daemon", "run", "--port", "0", AGOR_DATABASE__URL=f"sqlite:///{tmp_path}/data/agor.db"
        )
    assert f"{tmp_path}/data/agor.db" in told
    assert why in told
    assert "write" in told.splitlines()[-1]


def test_a_log_that_cannot_be_written_is_named(home: Path, agor: Agor):
    (home / "logs" / "daemon.log").mkdir()
    assert str(home / "logs" / "daemon.log") in agor("daemon", "start", "--port", "0")


@pytest.mark.parametrize("command", ["run", "start"])
def test_a_home_that_is_a_file_is_named(agor: Agor, tmp_path: Path, command: str):
    (tmp_path / "file").touch()
    told = agor("daemon", command, "--port", "0", AGOR_HOME=str(tmp_path / "file"))
    assert str(tmp_path / "file") in told
    assert "set AGOR_HOME to a folder" in told

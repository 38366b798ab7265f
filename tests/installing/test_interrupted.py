"""Installs that are interrupted or meet another leave something that works, and no process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agor.installing.folder import AgentsFolder
from agor.installing.install import install
from tests.installing.registry import Registry, tiny_agent
from tests.installing.test_install import installed, version_in
from tests.integration.processes import PATIENCE, Mark

ROOT = Path(__file__).parents[2]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(registry: Registry, folder: AgentsFolder, mark: Mark, tmp_path: Path) -> Start:
    """Install a version in a process of its own."""

    def start(version: str, lock: bytes) -> subprocess.Popen[str]:
        path = tmp_path / f"lock-{version}.json"
        path.write_bytes(lock)
        return subprocess.Popen(
            [sys.executable, "-m", "tests.installing.installing_process",
             str(folder.path), version, str(path)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=mark.env,
        )  # fmt: skip

    return start


@pytest.fixture
def held_back(registry: Registry, folder: AgentsFolder) -> bytes:
    """Version 1 is in use; version 2 can be had, and its download hangs."""
    install(tiny_agent(), folder, lock=registry.publish("1.0.0"))
    registry.asked.clear()
    registry.may_answer.clear()
    return registry.publish("2.0.0")


def test_ctrl_c_leaves_the_old_one_and_no_npm(registry: Registry, folder, start, mark, held_back):
    running = start("2.0.0", held_back)
    assert registry.asked.wait(PATIENCE)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=PATIENCE)
    mark.wait_gone()
    assert version_in(folder) == "1.0.0"
    assert installed(folder) == {"tiny-1.0.0"}


def test_after_a_kill_the_old_one_works_and_the_next_install_is_whole(
    registry: Registry, folder, start, mark, held_back
):
    running = start("2.0.0", held_back)
    assert registry.asked.wait(PATIENCE)
    running.kill()
    running.communicate(timeout=PATIENCE)
    assert version_in(folder) == "1.0.0"
    again = start("2.0.0", held_back)
    assert again.stdout is not None
    # npm of the one that was killed still works, on what would be thrown away below it.
    assert again.stdout.readline() == "waits\n"
    registry.may_answer.set()
    said, errors = again.communicate(timeout=2 * PATIENCE)
    assert said.splitlines() == ["begins", "2.0.0"], errors
    mark.wait_gone()
    assert version_in(folder) == "2.0.0"
    assert installed(folder) == {"tiny-1.0.0", "tiny-2.0.0"}
    assert not list((folder.path / "installed").glob(".new-*"))


def test_two_at_once_download_it_once(registry: Registry, folder, start, held_back):
    first = start("2.0.0", held_back)
    assert registry.asked.wait(PATIENCE)
    second = start("2.0.0", held_back)
    assert second.stdout is not None
    assert second.stdout.readline() == "waits\n"
    registry.may_answer.set()
    assert first.communicate(timeout=2 * PATIENCE)[0].split() == ["begins", "2.0.0"]
    assert second.communicate(timeout=2 * PATIENCE)[0].split() == ["2.0.0"]
    assert registry.downloads == ["1.0.0", "2.0.0"]
    assert os.access(folder.path / "bin" / "tiny", os.X_OK)

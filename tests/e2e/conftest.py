"""A place of its own for each command: what it leaves there, or leaves running, can be seen."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.people_commands import Agor, with_daemon
from tests.integration.processes import Mark, inhabitants


@pytest.fixture
def mark() -> Iterator[Mark]:
    """A mark for the processes of a test; they end with it."""
    mark = Mark()
    yield mark
    mark.end_all()


@pytest.fixture
def temporary_folder() -> Iterator[Path]:
    """A folder for what a command puts below TMPDIR. A short path: sockets go below it."""
    folder = Path(tempfile.mkdtemp(prefix="agor-"))
    yield folder
    # Executors and agents have no mark, and would outlive a command that was killed.
    for pid in inhabitants(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def installed() -> Path:
    """The folder of the installed commands."""
    return Path(sys.executable).parent


@pytest.fixture(scope="module")
def agor(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agor]:
    """The command, with a daemon for a whole module of tests."""
    with with_daemon(installed / "agor", tmp_path_factory.mktemp("d") / "h") as one:
        yield one

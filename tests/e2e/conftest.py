"""A place of its own for each command: what it leaves there, or leaves running, can be seen."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.processes import Mark


@pytest.fixture
def mark() -> Iterator[Mark]:
    """A mark for the processes of a test; they end with it."""
    mark = Mark()
    yield mark
    mark.end_all()


@pytest.fixture
def temporary_folder(tmp_path: Path) -> Path:
    """A folder for what a command puts below TMPDIR."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def installed() -> Path:
    """The folder of the installed commands."""
    return Path(sys.executable).parent

"""Daemon tests run on uvloop, as the daemon does, in folders short enough for sockets."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop


def pytest_asyncio_loop_factories(config, item):
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: sockets go below it."""
    made = Path(tempfile.mkdtemp(prefix="agor-"))
    yield made
    shutil.rmtree(made)

"""The pool runs on the loop that the daemon runs on."""

import shutil
import tempfile
from pathlib import Path

import pytest
import uvloop


def pytest_asyncio_loop_factories(config, item):
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def folder():
    """A short path: sockets go below it."""
    made = Path(tempfile.mkdtemp(prefix="agor-"))
    yield made
    shutil.rmtree(made)

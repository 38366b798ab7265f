"""Daemon tests run on uvloop, as the daemon does, in folders short enough for sockets."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop

from tests.store.postgres_server import PostgresServer, binaries


def pytest_asyncio_loop_factories(config, item):
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: sockets go below it."""
    made = Path(tempfile.mkdtemp(prefix="agor-"))
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A server of the module's own."""
    found = binaries()
    if found is None:
        pytest.skip("no PostgreSQL here (no initdb)")
    server = PostgresServer(found)
    try:
        server.create()
        yield server
    finally:
        server.remove()

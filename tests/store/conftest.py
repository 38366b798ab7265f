"""A store for each test, on a real SQLite file and on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agor.daemon.store import connect
from agor.daemon.store.base import Store
from tests.store.postgres_server import PostgresServer, binaries


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    found = binaries()
    if found is None:
        pytest.skip(
            "no PostgreSQL here (no initdb): install postgresql, or run 'make test' as root"
        )
    server = PostgresServer(found)
    try:
        server.create()
        yield server
    finally:
        server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/agor.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return await server.empty_database()


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    """An open store on an empty database."""
    store = connect(url)
    await store.open()
    yield store
    await store.close()

"""Fixtures of the interface's tests. They run on the loop that the daemon runs on."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio
import uvloop

from tests.api.serving import Served, serving


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A short path, however the tests are run: sockets go below it."""
    made = Path(tempfile.mkdtemp(prefix="agor-"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """A daemon as it is by default."""
    async with serving(tmp_path) as one:
        yield one


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """A daemon for a whole module of tests that do not mind each other.

    Such a module has `pytestmark = pytest.mark.asyncio(loop_scope="module")`.
    """
    async with serving(tmp_path_factory.mktemp("shared")) as one:
        yield one

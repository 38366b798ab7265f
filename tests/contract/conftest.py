"""Fixtures of the contract suite: every test runs on both event loops, most over every way in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import uvloop

from agor.rpc import Limits, Peer, unix
from agor.rpc.listener import Listener
from tests.contract.connections import Connections, opening
from tests.contract.raw_end import RawEnd
from tests.contract.service import Service
from tests.contract.ways import ALL_WAYS, UnixPath, Way


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


@pytest.fixture(params=ALL_WAYS, ids=lambda way: way.name)
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


@pytest.fixture
def service() -> Service:
    """What the served side serves."""
    return Service()


@pytest.fixture
def own_service() -> Service:
    """What the connecting side serves."""
    return Service()


@pytest.fixture
async def peers(
    way: Way, service: Service, own_service: Service
) -> AsyncIterator[tuple[Peer, Peer]]:
    """Two connected peers: the served one and the one that connected."""
    async with way.peers(service.routes, own_service.routes) as both:
        yield both


@pytest.fixture
def limits() -> Limits:
    """The bounds of `raw` and `raw_ends`; a module overrides this to make them small."""
    return Limits()


@pytest.fixture
async def raw_ends(
    way: Way, service: Service, limits: Limits
) -> AsyncIterator[tuple[Peer, RawEnd]]:
    """A served peer and a raw end, over every way in."""
    async with way.raw(service.routes, limits) as both:
        yield both


@pytest.fixture
async def raw(service: Service, limits: Limits) -> AsyncIterator[RawEnd]:
    """A raw end that is connected to the service over a real socket."""
    async with UnixPath().raw(service.routes, limits) as (_, end):
        yield end


@pytest.fixture
async def connections() -> AsyncIterator[Connections]:
    """For tests that make their own connections."""
    async with opening() as made:
        yield made


@pytest.fixture
async def listening(
    tmp_path: Path, service: Service, connections: Connections
) -> tuple[Path, Listener]:
    """A path where the service is served."""
    bound = unix.bind(tmp_path / "s")
    return bound.path, connections.listen(bound.listener, lambda: Peer(service.routes), 2000)

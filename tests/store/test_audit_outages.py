"""The chain of the audit log while the database fails: no record twice, no gap, none lost."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from agor.daemon.store import connect
from agor.daemon.store.base import Store
from agor.errors import StoreError, StoreUnavailable
from tests.contract.waiting import soon, until
from tests.store.cutting_proxy import CuttingProxy, How, cutting_proxy
from tests.store.postgres_server import PostgresServer
from tests.store.test_audit_chain import NONSENSE, noting, subjects
from tests.store.test_sqlite_disk import MEBIBYTE, small_disk

__all__ = ["small_disk"]


@pytest.fixture
async def behind(postgres: PostgresServer) -> AsyncIterator[tuple[Store, CuttingProxy]]:
    """A store that is connected through a proxy."""
    url = await postgres.empty_database()
    with tempfile.TemporaryDirectory(prefix="agor-", dir="/tmp") as folder:
        async with cutting_proxy(Path(folder), url) as proxy:
            store = connect(proxy.url)
            await store.open()
            yield store, proxy
            await store.close()


@pytest.mark.parametrize(
    ("how", "stored"), [("swallow", False), ("hang", False), ("deliver", True)]
)
async def test_a_commit_whose_outcome_was_in_doubt_is_in_the_chain_once_or_not_at_all(
    behind: tuple[Store, CuttingProxy], how: How, stored: bool
):
    store, proxy = behind
    await store.commit(noting("1", "2"))
    proxy.cut = (b"COMMIT\0", how)
    result = await soon(asyncio.gather(store.commit(noting("3", "4")), return_exceptions=True))
    assert isinstance(result[0], StoreUnavailable) is not stored
    await soon(store.commit(noting("5")))
    assert await subjects(store) == ["1", "2", *(["3", "4"] if stored else []), "5"]


async def test_a_refused_write_stays_refused_if_its_groups_commit_was_in_doubt(
    behind: tuple[Store, CuttingProxy],
):
    store, proxy = behind
    await store.commit(noting("1"))
    proxy.cut = (b"COMMIT\0", "deliver")
    writes = [noting("2"), noting("bad", statements=(NONSENSE,)), noting("3")]
    results = await soon(asyncio.gather(*map(store.commit, writes), return_exceptions=True))
    assert proxy.was_cut.is_set()
    assert (results[0], results[2]) == (None, None)
    assert isinstance(results[1], StoreError)
    assert not isinstance(results[1], StoreUnavailable)
    await soon(store.commit(noting("4")))
    assert await subjects(store) == ["1", "2", "3", "4"]


@pytest.mark.parametrize("word", [b"BEGIN", b"INSERT INTO audit"])
async def test_cut_off_before_the_commit_the_chain_goes_on_where_it_was(
    behind: tuple[Store, CuttingProxy], word: bytes
):
    store, proxy = behind
    proxy.cut = (word, "swallow")
    with pytest.raises(StoreUnavailable):
        await soon(store.commit(noting("1")))
    await soon(store.commit(noting("2", "3")))
    assert await subjects(store) == ["2", "3"]


def _is_longer(names: list[str], length: int) -> bool:
    return len(names) > length


async def test_the_chain_holds_over_a_server_that_is_killed(postgres: PostgresServer):
    store = connect(await postgres.empty_database())
    await store.open()
    stored: list[str] = []
    going_on = True

    async def produce(name: str) -> None:
        count = 0
        while going_on:
            count += 1
            with contextlib.suppress(StoreUnavailable):
                await store.commit(noting(f"{name}{count}"))
                stored.append(f"{name}{count}")
            await asyncio.sleep(0)

    producers = [asyncio.create_task(produce(name)) for name in "abcd"]
    for _ in range(3):
        enough = len(stored) + 30
        await until(partial(_is_longer, stored, enough))
        await asyncio.to_thread(postgres.kill)
        await until(lambda: not store.available)
        await asyncio.to_thread(postgres.start)
        await until(lambda: store.available)
    going_on = False
    await soon(asyncio.gather(*producers))
    assert sorted(map(str, await subjects(store))) == sorted(stored)
    await store.close()


async def test_a_full_disk_leaves_no_gap(small_disk: Path):
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(10 * MEBIBYTE))
    store = connect(f"sqlite:///{small_disk}/agor.db")
    await store.open()
    written: list[str] = []
    with contextlib.suppress(StoreUnavailable):
        while True:
            names = [f"{len(written)}.{number}.{'x' * 1000}" for number in range(50)]
            await soon(store.commit(noting(*names)))
            written += names
    assert not store.available
    assert written
    assert await subjects(store) == written
    ballast.unlink()
    await until(lambda: store.available)
    await soon(store.commit(noting("after")))
    assert await subjects(store) == [*written, "after"]
    await store.close()

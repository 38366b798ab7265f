"""PostgreSQL is killed, restarted, cut off: what was told about a commit is true."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import pytest

from agor.daemon.store import connect
from agor.daemon.store.base import Store, Write
from agor.daemon.store.postgres import readers
from agor.errors import StoreDamaged, StoreUnavailable
from tests.contract.waiting import soon, until
from tests.store.cutting_proxy import CuttingProxy, How, cutting_proxy
from tests.store.examples import a_record, sequences, some_events
from tests.store.postgres_server import PostgresServer

PRODUCERS = 16
KILLS = 4


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    return await postgres.empty_database()


@pytest.fixture
async def proxy(url: str) -> AsyncIterator[CuttingProxy]:
    with tempfile.TemporaryDirectory(prefix="agor-", dir="/tmp") as folder:
        async with cutting_proxy(Path(folder), url) as proxy:
            yield proxy


@pytest.fixture
async def behind(proxy: CuttingProxy) -> AsyncIterator[Store]:
    """A store that is connected through the proxy."""
    store = connect(proxy.url)
    await store.open()
    yield store
    await store.close()


class Load:
    """Producers that commit without a pause, each write in a session of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._next = 0
        self._going_on = True
        self.stored: set[int] = set()
        self.refused: set[int] = set()
        self.progress = asyncio.Event()

    async def produce(self) -> None:
        while self._going_on:
            self._next += 1
            number = self._next
            try:
                await self._store.commit(some_events(number, 1, number % 7 + 1, b"x" * 190))
                self.stored.add(number)
                self.progress.set()
            except StoreUnavailable:
                self.refused.add(number)
                await asyncio.sleep(0.01)

    async def more(self) -> None:
        """Wait for some more commits to succeed."""
        for _ in range(30):
            self.progress.clear()
            async with asyncio.timeout(60):
                await self.progress.wait()

    def end(self) -> None:
        self._going_on = False


async def check(store: Store, load: Load) -> None:
    found = await store.read("SELECT session_number, COUNT(*) FROM events GROUP BY 1")
    there: dict[int, int] = dict(found)
    assert set(there) == load.stored
    assert not load.stored & load.refused
    assert all(count == number % 7 + 1 for number, count in there.items())


async def test_killed_under_load_everything_that_was_told_is_true(
    postgres: PostgresServer, store: Store
):
    load = Load(store)
    producers = [asyncio.create_task(load.produce()) for _ in range(PRODUCERS)]
    for _ in range(KILLS):
        await load.more()
        await asyncio.to_thread(postgres.kill)
        await until(lambda: not store.available)
        with pytest.raises(StoreUnavailable) as refused:
            await store.commit(some_events(10**6, 1, 1))
        assert refused.value.hint
        await asyncio.to_thread(postgres.start)
    await load.more()
    load.end()
    await soon(asyncio.gather(*producers))
    assert load.refused
    await check(store, load)


async def test_restarted_in_order_while_nobody_writes_it_is_found_again(
    postgres: PostgresServer, store: Store
):
    await store.commit(some_events(1, 1, 1))
    await asyncio.to_thread(postgres.stop)
    await until(lambda: not store.available)
    with pytest.raises(StoreUnavailable):
        await soon(store.read("SELECT 1"))
    await asyncio.to_thread(postgres.start)
    await until(lambda: store.available)
    await soon(store.commit(some_events(1, 2, 2)))
    assert await sequences(store, 1) == [1, 2]


async def test_a_connection_that_the_server_ends_is_made_anew(store: Store, url: str):
    load = Load(store)
    producers = [asyncio.create_task(load.produce()) for _ in range(PRODUCERS)]
    admin = await asyncpg.connect(url)
    for _ in range(5):
        await load.more()
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'agor' AND pid <> pg_backend_pid()"
        )
    await admin.close()
    await load.more()
    load.end()
    await soon(asyncio.gather(*producers))
    await check(store, load)


@pytest.mark.parametrize(
    ("how", "stored"), [("swallow", False), ("hang", False), ("deliver", True)]
)
async def test_cut_off_in_the_middle_of_a_commit_its_outcome_is_found_out(
    behind: Store, proxy: CuttingProxy, how: How, stored: bool
):
    await behind.commit(some_events(1, 1, 1))
    proxy.cut = (b"COMMIT\0", how)
    if stored:
        await soon(behind.commit(some_events(1, 2, 2)))
    else:
        with pytest.raises(StoreUnavailable):
            await soon(behind.commit(some_events(1, 2, 2)))
    assert await sequences(behind, 1) == ([1, 2] if stored else [1])
    await soon(behind.commit(some_events(2, 1, 1)))
    assert behind.available


@pytest.mark.parametrize("word", [b"BEGIN", b"COPY", b"PGCOPY"])
async def test_cut_off_before_the_commit_nothing_is_stored_and_work_goes_on(
    behind: Store, proxy: CuttingProxy, word: bytes
):
    await behind.commit(some_events(1, 1, 1))
    proxy.cut = (word, "swallow")
    with pytest.raises(StoreUnavailable):
        await soon(behind.commit(some_events(1, 2, 2)))
    await soon(behind.commit(some_events(2, 1, 1)))
    assert await sequences(behind, 1) == [1]


@pytest.mark.parametrize(("how", "stored"), [("swallow", False), ("deliver", True)])
async def test_while_the_outcome_cannot_be_found_out_it_is_not_told_and_others_are_refused(
    behind: Store, proxy: CuttingProxy, how: How, stored: bool
):
    proxy.cut = (b"COMMIT\0", how)
    in_doubt = asyncio.ensure_future(behind.commit(some_events(1, 1, 1)))
    await asyncio.sleep(0)
    waiting = asyncio.ensure_future(behind.commit(some_events(2, 1, 1)))
    proxy.refusing = True
    await soon(proxy.was_cut.wait())
    await until(lambda: not behind.available)
    for other in (waiting, behind.commit(some_events(3, 1, 1))):
        with pytest.raises(StoreUnavailable):
            await soon(other)
    assert not in_doubt.done()
    proxy.refusing = False
    if stored:
        await soon(in_doubt)
    else:
        with pytest.raises(StoreUnavailable):
            await soon(in_doubt)
    await until(lambda: behind.available)
    assert [await sequences(behind, number) for number in (1, 2, 3)] == [
        [1] if stored else [],
        [],
        [],
    ]


async def test_closing_while_the_outcome_is_in_doubt_is_bounded_and_tells_nothing(
    behind: Store, proxy: CuttingProxy, monkeypatch: pytest.MonkeyPatch
):
    from agor.daemon.store.postgres import store as postgres_store

    monkeypatch.setattr(postgres_store, "_FLUSH_SECONDS", 0.2)
    proxy.cut = (b"COMMIT\0", "deliver")
    in_doubt = asyncio.ensure_future(behind.commit(some_events(1, 1, 1)))
    await asyncio.sleep(0)
    proxy.refusing = True
    await soon(proxy.was_cut.wait())
    await soon(behind.close())
    with pytest.raises(asyncio.CancelledError):
        await in_doubt


async def test_a_server_that_takes_no_writes_is_waited_for(store: Store, url: str):
    await store.commit(some_events(1, 1, 1))
    admin = await asyncpg.connect(url)

    async def read_only(state: str) -> None:
        await admin.execute("SET default_transaction_read_only = off")
        await admin.execute(f"ALTER DATABASE postgres SET default_transaction_read_only = {state}")

    try:
        await read_only("on")
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'agor' AND pid <> pg_backend_pid()"
        )
        await until(lambda: not store.available)
        with pytest.raises(StoreUnavailable, match="read-only"):
            await store.commit(some_events(1, 2, 2))
        assert await sequences(store, 1) == [1]
    finally:
        await read_only("off")
        await admin.close()
    await until(lambda: store.available)
    await soon(store.commit(some_events(1, 2, 2)))


async def test_another_daemon_that_took_the_database_meanwhile_keeps_it(
    behind: Store, proxy: CuttingProxy, url: str
):
    await behind.commit(some_events(1, 1, 1))
    proxy.refusing = True
    admin = await asyncpg.connect(url)
    await admin.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'agor' AND pid <> pg_backend_pid()"
    )
    await admin.close()
    await until(lambda: not behind.available)
    second = connect(url)
    await soon(second.open())
    proxy.refusing = False
    with contextlib.suppress(StoreUnavailable):
        await behind.commit(some_events(1, 2, 2))
    await until(lambda: "another daemon" in str(behind._writer.outage))  # type: ignore[attr-defined]
    with pytest.raises(StoreUnavailable, match="another daemon"):
        await behind.commit(some_events(1, 2, 2))
    await second.commit(some_events(2, 1, 1))
    assert await sequences(second, 1) == [1]
    await second.close()
    await until(lambda: behind.available)


async def test_a_server_that_does_not_answer_is_not_waited_for(proxy: CuttingProxy, behind: Store):
    await soon(behind.commit(some_events(1, 1, 1)))
    proxy.flowing.clear()
    under_way = asyncio.ensure_future(behind.commit(some_events(1, 2, 2)))
    await until(lambda: behind.stall is not None)
    assert not behind.available
    with pytest.raises(StoreUnavailable, match="has not answered"):
        await behind.commit(some_events(2, 1, 1))
    assert not under_way.done()
    proxy.flowing.set()
    # It comes back before the connection is given up: nothing was lost.
    await soon(under_way)
    await until(lambda: behind.available)
    assert await sequences(behind, 1) == [1, 2]
    assert await sequences(behind, 2) == []


async def test_a_question_to_a_server_that_does_not_answer_fails_in_time(
    proxy: CuttingProxy, behind: Store, monkeypatch: pytest.MonkeyPatch
):
    await soon(behind.commit(some_events(1, 1, 1)))
    with monkeypatch.context() as patch:
        patch.setattr(readers, "READ_SECONDS", 0.5)
        proxy.flowing.clear()
        with pytest.raises(StoreUnavailable, match="did not answer a question"):
            await soon(behind.read("SELECT 1"))
    assert not behind.available
    # Nobody has to ask again for it to be found.
    proxy.flowing.set()
    await until(lambda: behind.available)
    assert await soon(behind.read("SELECT 1")) == [(1,)]


async def test_a_server_that_does_not_answer_is_noticed_though_nobody_asks_or_writes(
    proxy: CuttingProxy, behind: Store
):
    await soon(behind.commit(some_events(1, 1, 1)))
    # All of it would take 9 s.
    behind._writer._stall._tick_seconds = 0.1  # type: ignore[attr-defined]
    proxy.flowing.clear()
    await until(lambda: not behind.available)
    with pytest.raises(StoreUnavailable, match="has not answered"):
        await behind.commit(some_events(2, 1, 1))
    proxy.flowing.set()
    await until(lambda: behind.available)
    await soon(behind.commit(some_events(1, 2, 2)))
    assert await sequences(behind, 1) == [1, 2]


async def test_a_connection_that_breaks_over_a_probe_is_made_anew(
    proxy: CuttingProxy, behind: Store
):
    await soon(behind.commit(some_events(1, 1, 1)))
    proxy.cut = (b"SELECT 1\0", "swallow")
    await soon(proxy.was_cut.wait())
    await until(lambda: not behind._writer._busy)  # type: ignore[attr-defined]
    assert behind.available
    await soon(behind.commit(some_events(1, 2, 2)))
    assert await sequences(behind, 1) == [1, 2]


async def damage(url: str, postgres: PostgresServer, table: str) -> None:
    """Damage the first page of a table that nobody uses."""
    admin = await asyncpg.connect(url)
    page = await admin.fetchval("SELECT pg_relation_filepath($1::regclass)", table)
    await admin.close()
    postgres.stop()
    file = postgres.data / page
    file.write_bytes(b"\xff" * 64 + file.read_bytes()[64:])
    postgres.start()


async def test_a_damaged_page_is_told_from_an_outage(url: str, postgres: PostgresServer):
    store = connect(url)
    await store.open()
    await soon(store.commit(some_events(1, 1, 10)))
    await store.close()
    await damage(url, postgres, "events")
    await store.open()
    with pytest.raises(StoreDamaged, match="invalid page"):
        await soon(store.events(1, 0, 100, 10**6))
    assert store.available
    await store.close()


async def test_without_the_end_of_the_audit_log_only_writes_with_records_are_refused(
    url: str, postgres: PostgresServer
):
    store = connect(url)
    await store.open()
    await soon(store.commit(Write(records=[a_record()])))
    await store.close()
    await damage(url, postgres, "audit")
    await store.open()
    outcomes = await soon(
        asyncio.gather(
            store.commit(some_events(1, 1, 1)),
            store.commit(some_events(2, 1, 1)._replace(records=[a_record()])),
            store.commit(some_events(3, 1, 1)),
            return_exceptions=True,
        )
    )
    assert outcomes[0] is outcomes[2] is None
    assert isinstance(outcomes[1], StoreDamaged)
    assert store.available
    assert [await sequences(store, number) for number in (1, 2, 3)] == [[1], [], [1]]
    await store.close()

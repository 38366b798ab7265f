"""A real daemon, killed -9 again and again while it rotates the master key: nothing is lost."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from agor.client import Client
from agor.daemon.services.credentials.credentials import Credentials
from agor.daemon.services.credentials.key_sources import KeyFile
from agor.daemon.services.credentials.vault import Vault
from agor.daemon.services.people.people import People
from agor.daemon.services.principal import Principal
from agor.daemon.store import connect, credentials
from agor.daemon.store.rows import CredentialRow
from agor.protocol.credentials import NewCredential, Rotation
from tests.integration.daemon.daemon_process import PATIENCE, DaemonProcess, running_daemon

PEOPLE, EACH = 15, 100
#: How many times it is killed, for each seed.
KILLS = 8


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    with running_daemon() as one:
        yield one


def value_of(user_id: str, name: str) -> str:
    return f"sk-{user_id}-{name}-0123456789"


class Drawer:
    """The credentials of a home that no daemon serves now."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self._store = connect(f"sqlite:///{daemon.home.folder}/agor.db")
        self._vault = Vault(self._store, KeyFile(daemon.home.folder / "master.key"))

    async def fill(self) -> None:
        """Keep very many."""
        await self._store.open()
        kept = Credentials(self._store, self._vault, People(self._store))
        for person in range(PEOPLE):
            who = Principal(user_id=f"user-{person}", name="x", role="member")
            names = [f"K{number}" for number in range(EACH)]
            await asyncio.gather(
                *(
                    kept.put(
                        who, name, NewCredential(value=value_of(who.user_id, name)), team=False
                    )
                    for name in names
                )
            )
        await self._store.close()

    async def check(self) -> dict[int, int]:
        """Open every single one with what is on the disk; counts them by version."""
        await self._store.open()
        await self._vault.ready()
        rows: list[CredentialRow] = await credentials.not_sealed_with(self._store, 0, "", 10_000)
        mine = [row for row in rows if row.user_id.startswith("user-")]
        assert len(mine) == PEOPLE * EACH
        for row in mine:
            assert self._vault.unseal(row) == value_of(row.user_id, row.name)
        counts = await credentials.counts(self._store)
        await self._store.close()
        return counts


async def begin(daemon: DaemonProcess, *, unheard: bool) -> int | None:
    """Begin a rotation; unheard, the daemon is killed before it can answer, or just after."""
    headers = {"authorization": f"Bearer {daemon.token}"}
    async with httpx.AsyncClient(base_url=daemon.url, headers=headers, trust_env=False) as http:
        asking = asyncio.create_task(http.post("/credentials/rotation"))
        if unheard:
            async with asyncio.timeout(PATIENCE):
                while (await http.get("/livez")).status_code != 200:
                    pass
            await asyncio.to_thread(daemon.kill)
            await asyncio.wait((asking,))
            _ = asking.exception()
            return None
        version: int = (await asking).json()["version"]
        return version


async def until_left(client: Client, most: int) -> Rotation:
    """Watch the rotation until no more than so many are left."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await client.credentials.rotation()
            if found.left <= most or found.status != "running":
                return found


@pytest.mark.parametrize("seed", range(2))
async def test_every_credential_opens_after_every_kill(daemon: DaemonProcess, seed: int):
    chance = random.Random(seed)
    await asyncio.to_thread(daemon.stop)
    await Drawer(daemon).fill()
    caught = 0
    await asyncio.to_thread(daemon.start)
    for _ in range(KILLS):
        async with daemon.client() as client:
            # What an earlier one left goes on by itself, and is killed again in its middle.
            idle = (await client.credentials.rotation()).status != "running"
            if idle and await begin(daemon, unheard=chance.random() < 0.3) is None:
                assert await Drawer(daemon).check()
                await asyncio.to_thread(daemon.start)
                continue
            await until_left(client, chance.randrange(PEOPLE * EACH))
        await asyncio.to_thread(daemon.kill)
        caught += len(await Drawer(daemon).check()) > 1
        await asyncio.to_thread(daemon.start)
    async with daemon.client() as client:
        await client.credentials.set("MINE", "sk-of-my-own-LAST")
        await until_left(client, 0)
        async with asyncio.timeout(PATIENCE):
            while (state := await client.credentials.rotation()).status == "running":
                pass
        assert (state.status, state.left, len(state.versions)) == ("done", 0, 1)
        await used(client, daemon.home.folder)
    await asyncio.to_thread(daemon.stop)
    assert await Drawer(daemon).check() == {state.version: PEOPLE * EACH + 1}
    keys = (daemon.home.folder / "master.key").read_text().splitlines()
    assert [line.split(":")[0] for line in keys if line[0] != "#"] == [str(state.version)]
    assert caught, "no kill hit a rotation in its middle"


async def used(client: Client, folder: Path) -> None:
    """Have a task fetch a key."""
    session = await client.create_session("scripted", folder)
    task = await client.prompt(session.session_id, json.dumps([{"key": "MINE"}]))
    assert (await client.wait_task(task.task_id, timeout=PATIENCE)).status == "completed"

"""Rotation of the master key, on both databases: killed at every step, nothing is ever lost."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agor.daemon.services.credentials.credentials import Credentials
from agor.daemon.services.credentials.key_sources import KeyFile, KeySource, KeyVariable
from agor.daemon.services.credentials.master_key import MasterKey
from agor.daemon.services.credentials.rotation import Rotations
from agor.daemon.services.credentials.vault import Vault
from agor.daemon.services.people.people import People
from agor.daemon.services.principal import Principal
from agor.daemon.store import credentials
from agor.daemon.store.base import Statement, Store, Write
from agor.errors import Forbidden, MasterKeyUnusable, StoreUnavailable
from agor.protocol.credentials import NewCredential, Rotation
from tests.store.examples import put

ANN = Principal(user_id="ann", name="Ann", role="owner")
BOB = Principal(user_id="bob", name="Bob", role="member")
PATIENCE = 30.0


class Killed(BaseException):
    """The process ends here."""


class Keeper:
    """As much of a daemon as keeps credentials."""

    def __init__(self, store: Store, source: KeySource) -> None:
        self.store = store
        self.vault = Vault(store, source)
        self.rotations = Rotations(store, self.vault)
        self._credentials = Credentials(store, self.vault, People(store))

    async def open(self) -> None:
        await self.vault.open()
        await self.rotations.open()

    async def keep(self, name: str, value: str) -> None:
        await self._credentials.put(ANN, name, NewCredential(value=value), team=False)

    async def values(self) -> dict[str, str]:
        """Open everything."""
        await self.vault.ready()
        rows = await credentials.visible_to(self.store, ANN.user_id)
        return {row.name: self.vault.unseal(row) for row in rows}

    async def settled(self) -> Rotation:
        """Wait until no rotation is under way."""
        if self.rotations._work is not None:
            async with asyncio.timeout(PATIENCE):
                await asyncio.wait((self.rotations._work,))
        return await self.rotations.show(ANN)


class Steps:
    """Counts what becomes durable, and kills at one of these steps, before it or behind it."""

    def __init__(self, fatal: float) -> None:
        self._fatal = fatal
        self._numbers = itertools.count()
        self.over = False

    async def take(self, work: Callable[[], Awaitable[None]]) -> None:
        number = next(self._numbers)
        if self.over or number == self._fatal:
            self.over = True
            raise Killed
        await work()
        if number + 0.5 == self._fatal:
            self.over = True
            raise Killed


def watched(keeper: Keeper, steps: Steps) -> None:
    """Have every commit and every change of the key's file be a step."""
    commit, save = keeper.store.commit, keeper.vault.source.save
    keeper.store.commit = lambda write: steps.take(lambda: commit(write))  # type: ignore[method-assign]
    keeper.vault.source.save = lambda key: steps.take(lambda: save(key))  # type: ignore[method-assign]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path / "master.key"


def in_file(path: Path) -> list[str]:
    return [line.split(":")[0] for line in path.read_text().splitlines() if line[0] != "#"]


async def test_killed_at_any_step_nothing_is_lost_and_the_next_daemon_goes_on(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("agor.daemon.services.credentials.rotation._BATCH", 3)
    keeper = Keeper(store, KeyFile(path))
    expected = {f"KEY_{n}": f"value-{n:04}-of-it" for n in range(10)}
    for name, value in expected.items():
        await keeper.keep(name, value)
    real = store.commit
    fatal, killed = 0.0, True
    while killed:
        dying = Keeper(store, KeyFile(path))
        await dying.open()
        await dying.settled()
        steps = Steps(fatal)
        watched(dying, steps)
        try:
            await dying.rotations.begin(ANN)
        except Killed:
            pass
        else:
            assert dying.rotations._work is not None
            await asyncio.wait((dying.rotations._work,))
            _ = dying.rotations._work.exception()
        killed = steps.over
        store.commit = real  # type: ignore[method-assign]
        # Whoever comes next can open everything at once, and brings it to its end.
        after = Keeper(store, KeyFile(path))
        assert await after.values() == expected, fatal
        await after.open()
        state = await after.settled()
        assert (state.status, state.left, len(state.versions)) == ("done", 0, 1), fatal
        assert in_file(path) == [str(state.version)]
        assert await after.values() == expected
        fatal += 0.5
    # The new version, who asked for it, four batches, the end, the old version gone.
    assert fatal - 0.5 == 8


async def test_keys_are_kept_and_deleted_meanwhile(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("agor.daemon.services.credentials.rotation._BATCH", 5)
    keeper = Keeper(store, KeyFile(path))
    for n in range(100):
        await keeper.keep(f"K{n}", f"first-value-of-{n}")
    await keeper.rotations.begin(ANN)

    async def replace(n: int) -> None:
        await keeper.keep(f"K{n}", f"second-value-of-{n}")

    async def remove(n: int) -> None:
        row = await credentials.get(store, ANN.user_id, f"K{n}")
        assert row
        await put(store, credentials.remove(row.credential_id))

    await asyncio.gather(
        *(replace(n) for n in range(0, 100, 2)), *(remove(n) for n in range(1, 100, 4))
    )
    state = await keeper.settled()
    assert (state.status, state.left, state.sealed) == ("done", 0, 75)
    values = await Keeper(store, KeyFile(path)).values()
    assert values == {
        f"K{n}": f"{'first' if n % 2 else 'second'}-value-of-{n}" for n in range(100) if n % 4 != 1
    }


async def test_rotations_follow_each_other_and_none_begins_within_another(store: Store, path: Path):
    keeper = Keeper(store, KeyFile(path))
    await keeper.keep("KEY", "the-value-of-it")
    real, go_on = store.commit, asyncio.Event()

    async def held(write: Write) -> None:
        if any("SET sealed" in each.sql for each in write.statements):
            await go_on.wait()
        await real(write)

    store.commit = held  # type: ignore[method-assign]
    together = await asyncio.gather(*(keeper.rotations.begin(ANN) for _ in range(5)))
    assert {each.version for each in together} == {2}
    go_on.set()
    for version in (3, 4, 5):
        await keeper.settled()
        assert (await keeper.rotations.begin(ANN)).version == version
    await keeper.settled()
    assert in_file(path) == ["5"]
    assert await Keeper(store, KeyFile(path)).values() == {"KEY": "the-value-of-it"}


async def test_one_that_cannot_be_opened_holds_up_nobody_and_its_version_stays(
    store: Store, path: Path
):
    keeper = Keeper(store, KeyFile(path))
    for n in range(5):
        await keeper.keep(f"K{n}", f"the-value-of-{n}")
    await put(store, Statement("UPDATE credentials SET sealed = ? WHERE name = 'K2'", (b"?" * 40,)))
    await keeper.rotations.begin(ANN)
    state = await keeper.settled()
    assert (state.status, state.left, state.sealed, state.versions) == ("failed", 1, 4, [2, 1])
    assert "store them anew" in str(state.to_do)
    await keeper.keep("K2", "stored-anew-by-ann")
    await keeper.rotations.begin(ANN)
    assert (await keeper.settled()).versions == [3]
    assert (await Keeper(store, KeyFile(path)).values())["K2"] == "stored-anew-by-ann"


async def test_a_key_file_that_cannot_be_written_changes_nothing(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
):
    keeper = Keeper(store, KeyFile(path))
    await keeper.keep("KEY", "the-value-of-it")
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(MasterKeyUnusable, match="No space left"):
            await keeper.rotations.begin(ANN)
    assert path.read_bytes() == before
    assert (await keeper.rotations.show(ANN)).versions == [1]
    assert await keeper.values() == {"KEY": "the-value-of-it"}


async def test_it_waits_for_a_database_that_is_away(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("agor.daemon.services.credentials.rotation._PAUSE", 0.001)
    keeper = Keeper(store, KeyFile(path))
    await keeper.keep("KEY", "the-value-of-it")
    real, refused = store.commit, itertools.count()

    async def away(write: Write) -> None:
        if any("SET sealed" in each.sql for each in write.statements) and next(refused) < 5:
            raise StoreUnavailable("the database is away")
        await real(write)

    store.commit = away  # type: ignore[method-assign]
    await keeper.rotations.begin(ANN)
    assert (await keeper.settled()).status == "done"
    assert next(refused) > 5


async def test_a_member_may_not(store: Store, path: Path):
    keeper = Keeper(store, KeyFile(path))
    with pytest.raises(Forbidden):
        await keeper.rotations.begin(BOB)
    with pytest.raises(Forbidden):
        await keeper.rotations.show(BOB)
    assert not path.exists()


# ── keys that are not ours to keep ───────────────────────────────────────────────────────────


class Somewhere(KeyVariable):
    """A source that gives what a test says, like a command of a secret store."""

    def __init__(self, key: MasterKey) -> None:
        super().__init__(key.spell())

    def give(self, key: MasterKey) -> None:
        self._text = key.spell()


async def test_a_new_version_from_elsewhere_is_taken_without_a_restart(store: Store):
    old = MasterKey.fresh()
    source = Somewhere(old)
    keeper = Keeper(store, source)
    await keeper.keep("KEY", "the-value-of-it")
    await keeper.rotations.begin(ANN)
    state = await keeper.settled()
    assert (state.status, state.versions) == ("done", [1])
    assert "put VERSION:KEY with a higher number before what is in" in str(state.to_do)
    new = old.with_next()
    source.give(new)
    await keeper.rotations.begin(ANN)
    state = await keeper.settled()
    assert (state.status, state.version, state.sealed, state.left) == ("done", 2, 1, 0)
    assert "Nothing needs version 1 any more: take it out" in str(state.to_do)
    source.give(new.only([]))
    again = Keeper(store, source)
    assert await again.values() == {"KEY": "the-value-of-it"}


async def test_an_old_version_that_is_taken_away_too_early_is_missed_before_harm_is_done(
    store: Store,
):
    old = MasterKey.fresh()
    source = Somewhere(old)
    keeper = Keeper(store, source)
    await keeper.keep("KEY", "the-value-of-it")
    source.give(old.with_next().only([]))
    with pytest.raises(MasterKeyUnusable, match="version 1 no more"):
        await keeper.rotations.begin(ANN)
    assert await keeper.values() == {"KEY": "the-value-of-it"}


async def test_what_a_new_start_finds_on_an_older_version_is_sealed_anew(store: Store):
    old = MasterKey.fresh()
    await Keeper(store, Somewhere(old)).keep("KEY", "the-value-of-it")
    keeper = Keeper(store, Somewhere(old.with_next()))
    await keeper.open()
    assert (await keeper.settled()).left == 0
    assert await credentials.counts(store) == {2: 1}


async def test_a_number_that_is_lower_than_one_in_use_is_refused(store: Store):
    """What would be sealed with it could be taken for sealed with a key that is lost."""
    old = MasterKey.fresh().with_next()
    await Keeper(store, Somewhere(old)).keep("KEY", "the-value-of-it")
    keeper = Keeper(store, Somewhere(MasterKey.fresh()))
    with pytest.raises(MasterKeyUnusable, match=r"version 2\), and"):
        await keeper.keep("ANOTHER", "another-value-of-it")

"""A process that commits is killed: what it was told is stored is there."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import defaultdict

from agor.daemon.store import connect
from agor.daemon.store.base import Store
from tests.store.committing import PRODUCERS
from tests.store.examples import sequences

KILLS = 6


def acknowledged(url: str, lines: int) -> dict[int, int]:
    """Run the committing process, kill it after so many lines; tell what it had heard by then."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.store.committing", url],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    last: dict[int, int] = defaultdict(int)
    with process.stdout:
        for _ in range(lines):
            session, sequence = map(int, process.stdout.readline().split())
            last[session] = sequence
        process.kill()
        # What it wrote before it died was acknowledged too; the last line may be cut.
        for line in process.stdout:
            if line.endswith("\n"):
                session, sequence = map(int, line.split())
                last[session] = sequence
    process.wait(60)
    return last


async def check(store: Store, last: dict[int, int]) -> None:
    rows = await store.read("SELECT session_id FROM sessions")
    marks = {tuple(map(int, name.split("-"))) for (name,) in rows}
    for session in range(1, PRODUCERS + 1):
        stored = await sequences(store, session)
        assert stored == list(range(1, len(stored) + 1))
        assert len(stored) >= last[session]
        # Both halves of a write, or none.
        ends = sorted(sequence for mine, sequence in marks if mine == session)
        assert (ends[-1] if ends else 0) == len(stored)


async def test_all_that_was_acknowledged_outlives_kill_9(url: str):
    chance = random.Random(7)
    for _ in range(KILLS):
        last = acknowledged(url, chance.randrange(1, 150))
        store = connect(url)
        await store.open()
        await check(store, last)
        if url.startswith("sqlite"):
            assert await store.read("PRAGMA integrity_check") == [("ok",)]
        await store.close()

"""A process that writes audit records is killed in the middle of it: the chain holds."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter, defaultdict

import pytest

from agor.daemon.store import audit, connect
from agor.daemon.store.base import Store
from agor.daemon.store.chain import GENESIS
from agor.daemon.store.checking import follow
from tests.store.auditing import SIZES

#: On PostgreSQL only the daemon's end is killed here; its server is in test_audit_outages.
KILLS = {"sqlite": 25, "postgresql": 8}


def acknowledged(url: str, lines: int) -> dict[str, int]:
    """Run the writing process, kill it after so many lines; tell what it had heard by then."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.store.auditing", url], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    last: dict[str, int] = defaultdict(int)
    with process.stdout:
        for _ in range(lines):
            name, count = process.stdout.readline().split()
            last[name] = int(count)
        process.kill()
        for line in process.stdout:
            if line.endswith("\n"):
                name, count = line.split()
                last[name] = int(count)
    process.wait(60)
    return last


async def check(store: Store, last: dict[str, int]) -> None:
    rows = await audit.behind(store, 0, 1_000_000)
    assert follow(GENESIS, rows) == len(rows)
    written = Counter(row.subject for row in rows)
    assert "never" not in written
    # What was done and what the log says of it are both there, or neither is.
    done = {name for (name,) in await store.read("SELECT session_id FROM sessions")}
    assert set(written) == done
    # All records of a commit, or none.
    assert set(written.values()) <= set(SIZES)
    for name, count in last.items():
        assert {f"{name}-{number}" for number in range(1, count + 1)} <= done


@pytest.mark.timeout(300)
async def test_the_chain_holds_over_kill_9_and_tells_all_that_was_acknowledged(url: str):
    chance = random.Random(11)
    seen: dict[str, int] = {}
    for _ in range(KILLS[url.partition(":")[0]]):
        seen |= acknowledged(url, chance.randrange(1, 60))
        store = connect(url)
        await store.open()
        await check(store, seen)
        await store.close()

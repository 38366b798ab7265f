"""Commits audit records in a loop and prints what was acknowledged, until it is killed.

`python -m` this. One line for each commit whose `commit` has returned: a producer, and how many
commits it has made by then.
"""

from __future__ import annotations

import asyncio
import os
import sys

from agor.daemon.store import connect
from agor.daemon.store.base import Statement, Write
from agor.daemon.store.sessions import insert
from agor.errors import StoreError
from tests.store.examples import a_record, a_session

PRODUCERS = 4
#: Records of one commit.
SIZES = (1, 2, 7, 60)


async def main(url: str) -> None:
    store = connect(url)
    await store.open()
    found = await store.read("SELECT actor, COUNT(DISTINCT subject) FROM audit GROUP BY actor")
    made: dict[str, int] = dict(found)

    async def produce(name: str) -> None:
        count = made.get(name, 0)
        while True:
            for size in SIZES:
                count += 1
                subject = f"{name}-{count}"
                records = [a_record(subject, actor=name, detail=b"x" * 50) for _ in range(size)]
                row = a_session(subject, int(name) * 10**9 + count)
                await store.commit(Write([insert(row)], records=records))
                os.write(1, f"{name} {count}\n".encode())

    async def be_refused() -> None:
        """Make groups with a write that cannot be stored."""
        while True:
            try:
                await store.commit(Write([Statement("nonsense")], records=[a_record("never")]))
            except StoreError:
                await asyncio.sleep(0.002)

    await asyncio.gather(*(produce(str(name)) for name in range(1, PRODUCERS + 1)), be_refused())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

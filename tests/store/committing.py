"""Commits in a loop and prints what was acknowledged, until it is killed. `python -m` this.

One line for each commit whose `commit` has returned: the session and the last sequence.
"""

from __future__ import annotations

import asyncio
import os
import sys

from agor.daemon.store import connect
from agor.daemon.store.base import Write
from agor.daemon.store.events import last_sequence
from agor.daemon.store.sessions import insert
from tests.store.examples import a_session, some_events

PRODUCERS = 8
#: Events of one commit: some in one page, some in many.
SIZES = (1, 3, 40, 400)


async def main(url: str) -> None:
    store = connect(url)
    await store.open()

    async def produce(session: int) -> None:
        sequence = await last_sequence(store, session)
        while True:
            for count in SIZES:
                events = some_events(session, sequence + 1, sequence + count, b"x" * 190).events
                sequence += count
                number = session * 10**9 + sequence
                row = a_session(f"{session}-{sequence}", number)
                await store.commit(Write([insert(row)], events))
                os.write(1, f"{session} {sequence}\n".encode())

    await asyncio.gather(*map(produce, range(1, PRODUCERS + 1)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

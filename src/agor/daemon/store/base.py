"""What the daemon needs of a database, whichever it is.

The daemon is the only one that writes, so what to write is decided in its memory and never read
and changed inside a transaction. A `Write` is all that must become durable together. Every
statement in it can be carried out twice with the same outcome (`ON CONFLICT`, `SET x = value`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, NamedTuple, Protocol

from agor.daemon.store.rows import AuditRecord
from agor.errors import StoreUnavailable

Row = tuple[Any, ...]

#: Seconds that a question may take. The longest ones take a few, several times that on a busy
#: machine; and clients wait 30 s for an answer.
READ_SECONDS = 20.0


class Statement(NamedTuple):
    """One SQL statement with `?` for its values; the same text for every database."""

    sql: str
    values: Row = ()


class EventRun(NamedTuple):
    """Events of a session's feed that follow each other, encoded as its clients get them."""

    session_number: int
    #: The sequence of the first of them.
    first: int
    bodies: Sequence[bytes]


class Write(NamedTuple):
    """What becomes durable together, or not at all."""

    statements: Sequence[Statement] = ()
    events: Sequence[EventRun] = ()
    #: Added to the audit log, in the same transaction.
    records: Sequence[AuditRecord] = ()


class Reads(Protocol):
    """What can be asked, and no more."""

    async def read(self, sql: str, values: Row = ()) -> list[Row]:
        """Ask one question."""


class Store(Reads, Protocol):
    """A database. All of it may raise `StoreUnavailable`, and then nothing has happened.

    What can never be stored or asked is a bug of whoever asks, and a plain `StoreError`.
    """

    @property
    def available(self) -> bool:
        """Whether the last attempt to write was a success, and the last question was answered."""

    @property
    def stall(self) -> StoreUnavailable | None:
        """Why nobody should wait for a commit that is under way; none while there is progress."""

    async def open(self) -> None:
        """Connect, and bring the schema up to date; raises `StoreUnusable`."""

    async def close(self) -> None:
        """Write what is waiting, and let go. Bounded."""

    def commit(self, write: Write) -> Awaitable[None]:
        """Make it durable; done after the sync. Those that wait are committed together.

        Cancelling the caller does not take back what was handed in. It raises when it is awaited,
        and only when it is certain that nothing of it was stored.
        """

    async def snapshot(self, questions: Sequence[Statement]) -> list[list[Row]]:
        """Ask several questions of one and the same moment."""

    async def events(
        self, session_number: int, after: int, limit_rows: int, limit_bytes: int
    ) -> list[tuple[int, bytes]]:
        """Read a feed's events after a sequence, in order, up to the one that fills the bytes."""

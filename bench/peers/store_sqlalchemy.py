"""A peer of the store group: SQLAlchemy with aiosqlite, by its ORM and by Core.

Usage: python store_sqlalchemy.py WAY SYNC COUNT FOLDER
"""
# mypy: disable-error-code="import-not-found"

import sys
from typing import Any

import uvloop
from bench.store.rows import TABLE, batches, measured
from sqlalchemy import BigInteger, LargeBinary, event, insert
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

FEEDS = 32


class Base(DeclarativeBase):
    """The base of the tables."""


class Event(Base):
    """One event."""

    __tablename__ = "events"

    session_number: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    sequence: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    body: Mapped[bytes] = mapped_column(LargeBinary)


NAMES = ("session_number", "sequence", "body")


async def orm(engine: AsyncEngine, batch: list[dict[str, Any]]) -> None:
    async with AsyncSession(engine) as session:
        session.add_all([Event(**row) for row in batch])
        await session.commit()


async def core(engine: AsyncEngine, batch: list[dict[str, Any]]) -> None:
    async with engine.begin() as connection:
        await connection.execute(insert(Event), batch)


async def main(way: str, sync: str, count: int, folder: str) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{folder}/peer.db")

    @event.listens_for(engine.sync_engine, "connect")
    def _(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {sync}")

    async with engine.begin() as connection:
        await connection.exec_driver_sql(TABLE)
    write, size = {"orm": (orm, 1), "core": (core, 1), "orm_100": (orm, 100),
                   "core_100": (core, 100)}[way]  # fmt: skip
    with measured(count):
        for batch in batches(count, size, FEEDS):
            await write(engine, [dict(zip(NAMES, row, strict=True)) for row in batch])
    await engine.dispose()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]))

"""The ways to store an event that can be tried here, and why the others cannot.

A way is a command that is called with the way's name, SQLite's `synchronous`, the number of rows
and a folder, and prints its figures. Slower ones write fewer rows: enough for a steady figure.
Neighbours in this order are neighbours in time: those that the goals compare stand together.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.install import INSTALLED, PEERS, UnavailableError, peers_python
from bench.results import OURS

LIMIT = "bare_by_1000"
LIMIT_ONE_FEED = "bare_by_1000_one_feed"
OURS_ONE_FEED = "ours_one_feed"
AIOSQLITE = "aiosqlite"
FDATASYNC = "fdatasync"
OURS_POSTGRES = "ours_postgresql"

QUICK_DIVISOR = 50

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Way:
    """A command, and how many rows it writes without and with a sync for each commit."""

    name: str
    command: tuple[str, ...]
    normal: int = 0
    full: int = 0
    #: Rows at a steady pace, to measure how long each takes.
    paced: int = 0
    #: Whether it needs a PostgreSQL server.
    postgres: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Lineup:
    """What can be run, and the reasons for what is left out."""

    ways: list[Way] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


def _here(module: str, way: str) -> tuple[str, ...]:
    return (sys.executable, "-m", f"bench.store.{module}", way)


def _peer(script: str, way: str = "-") -> tuple[str, ...]:
    python = peers_python(PEERS / "store", INSTALLED / "store" / "python")
    return (python, str(PEERS / script), way)


def _found_from_root() -> Mapping[str, str]:
    return {**os.environ, "PYTHONPATH": str(_ROOT)}


WAYS: dict[str, Callable[[str], Way]] = {
    FDATASYNC: lambda name: Way(name, _here("bare", "fdatasync"), full=500),
    OURS: lambda name: Way(name, _here("ours", "rate"), normal=200_000, full=200_000),
    LIMIT: lambda name: Way(name, _here("bare", "by_thousands"), normal=200_000, full=200_000),
    OURS_ONE_FEED: lambda name: Way(
        name, _here("ours", "rate_one_feed"), normal=200_000, full=200_000
    ),
    LIMIT_ONE_FEED: lambda name: Way(
        name, _here("bare", "by_thousands_one_feed"), normal=200_000, full=200_000
    ),
    "stdlib_in_line": lambda name: Way(name, _here("bare", "in_line"), normal=20_000, full=2_000),
    "stdlib_in_a_thread": lambda name: Way(
        name, _here("bare", "in_a_thread"), normal=5_000, full=2_000
    ),
    AIOSQLITE: lambda name: Way(
        name, _peer("store_aiosqlite.py"), normal=4_000, full=2_000, environment=_found_from_root()
    ),
    "sqlalchemy_orm": lambda name: _sqlalchemy(name, "orm", 600, 400),
    "sqlalchemy_core": lambda name: _sqlalchemy(name, "core", 800, 500),
    "sqlalchemy_orm_by_100": lambda name: _sqlalchemy(name, "orm_100", 5_000, 4_000),
    "sqlalchemy_core_by_100": lambda name: _sqlalchemy(name, "core_100", 50_000, 40_000),
    OURS_POSTGRES: lambda name: Way(
        name, _here("ours", "rate"), full=100_000, paced=20_000, postgres=True
    ),
    "asyncpg_copy_by_1000": lambda name: Way(
        name, _here("postgres", "copy_by_thousands"), full=100_000, postgres=True
    ),
    "asyncpg_one_by_one": lambda name: Way(
        name, _here("postgres", "one_by_one"), full=2_000, postgres=True
    ),
}


def _sqlalchemy(name: str, way: str, normal: int, full: int) -> Way:
    command = _peer("store_sqlalchemy.py", way)
    return Way(name, command, normal, full, environment=_found_from_root())


def line_up() -> Lineup:
    """Install what is missing and say what can be run."""
    lineup = Lineup()
    for name, way in WAYS.items():
        try:
            lineup.ways.append(way(name))
        except UnavailableError as reason:
            lineup.skipped[name] = str(reason)
    return lineup

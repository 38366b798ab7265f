"""The tables, as SQLAlchemy describes them: what the migrations must arrive at.

Only migrations and tests import this; what runs has its SQL in the repositories. There are no
foreign keys: one daemon owns the database and decides in its memory what belongs to what, and a
check for each event would cost more than the event. Columns are named like the members of the
structures in `rows`. Those that can be large come last in a table, so that a change to the others
leaves their pages alone.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Index,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    text,
)

#: Compared byte by byte everywhere: a language's order changes with the system's libraries.
Plain = Text().with_variant(Text(collation="C"), "postgresql")

#: Names of constraints and indexes are the same in every database.
metadata = MetaData(
    naming_convention={"pk": "pk_%(table_name)s", "uq": "uq_%(table_name)s_%(column_0_N_name)s"}
)


def _id(name: str) -> Column[str]:
    return Column(name, Plain, primary_key=True)


def _text(name: str, *, optional: bool = False) -> Column[str]:
    return Column(name, Plain, nullable=optional)


def _number(name: str, *, optional: bool = False, key: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=optional, primary_key=key, autoincrement=False)


def _json(name: str, *, optional: bool = False) -> Column[bytes]:
    return Column(name, LargeBinary, nullable=optional)


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


UNFINISHED = "status IN ('queued', 'dispatching', 'running', 'awaiting_permission', 'stopping')"

users = Table(
    "users",
    metadata,
    _id("user_id"),
    _text("name"),
    _text("role"),
    _text("unix_username", optional=True),
    _number("created_at"),
)

sessions = Table(
    "sessions",
    metadata,
    _id("session_id"),
    _number("number"),
    _text("user_id"),
    _text("status"),
    _text("agentic_tool"),
    _text("workspace"),
    _text("title", optional=True),
    _text("permission_mode"),
    _text("model", optional=True),
    _text("environment"),
    _text("agent_session_id", optional=True),
    _number("created_at"),
    _number("updated_at"),
    Index("ix_sessions_number", "number", unique=True),
    Index("ix_sessions_created", "created_at", "session_id"),
    Index("ix_sessions_user", "user_id", "created_at", "session_id"),
    Index("ix_sessions_status", "status", "created_at", "session_id"),
)

tasks = Table(
    "tasks",
    metadata,
    _id("task_id"),
    _text("session_id"),
    _text("user_id"),
    _text("status"),
    _number("position"),
    _number("received"),
    _text("permission_mode"),
    _text("model", optional=True),
    _number("timeout_ms", optional=True),
    _text("executor_id", optional=True),
    _number("created_at"),
    _number("started_at", optional=True),
    _number("ended_at", optional=True),
    _number("survivors", optional=True),
    _json("tools"),
    _json("result", optional=True),
    _text("prompt"),
    Index("ix_tasks_session", "session_id", "created_at", "task_id"),
    Index("ix_tasks_position", "session_id", "position"),
    Index("ix_tasks_unfinished", "session_id", "position", **_where(UNFINISHED)),
)

#: On SQLite an ordinary table with an index: what feeds append goes to the end of one table,
#: instead of to the end of each feed in the middle of it, which costs twice as much to write.
events = Table(
    "events",
    metadata,
    _number("session_number", key=True),
    _number("sequence", key=True),
    Column("body", LargeBinary, nullable=False),
)

messages = Table(
    "messages",
    metadata,
    _number("session_number", key=True),
    _number("sequence", key=True),
    _number("last_sequence", optional=True),
    _text("block_id"),
    _text("task_id"),
    _text("kind"),
    _text("status", optional=True),
    _number("length", optional=True),
    Column("is_error", SmallInteger, nullable=False),
    _text("reason", optional=True),
    _json("start"),
    _json("tool_input", optional=True),
    Index(
        "ix_messages_open", "session_number", "task_id", "sequence",
        **_where("last_sequence IS NULL"),
    ),
    sqlite_with_rowid=False,
)  # fmt: skip

permissions = Table(
    "permission_requests",
    metadata,
    _id("permission_id"),
    _text("session_id"),
    _text("task_id"),
    _text("request_id"),
    _text("tool_name"),
    _text("tool_use_id", optional=True),
    _text("status"),
    _number("created_at"),
    _number("expires_at"),
    _number("decided_at", optional=True),
    _text("decided_by", optional=True),
    _text("reason", optional=True),
    _json("tool_input"),
    _json("updated_input", optional=True),
    Index("ix_permission_requests_asked", "task_id", "request_id", unique=True),
    Index("ix_permission_requests_created", "created_at", "permission_id"),
    Index("ix_permission_requests_status", "status", "created_at", "permission_id"),
    Index("ix_permission_requests_session", "session_id"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("token_hash", LargeBinary, primary_key=True),
    _text("session_id"),
    _text("task_id"),
    _text("user_id"),
    _text("executor_id"),
    _number("created_at"),
    _number("expires_at"),
    _number("max_uses", optional=True),
    _number("uses"),
    _number("revoked_at", optional=True),
    Index("ix_tokens_task", "task_id"),
    Index("ix_tokens_session", "session_id"),
)

receipts = Table(
    "receipts",
    metadata,
    _id("scope"),
    _id("key"),
    _json("fingerprint"),
    _number("status"),
    _number("created_at"),
    _json("body"),
    Index("ix_receipts_created", "created_at"),
)

executors = Table(
    "executors",
    metadata,
    _id("executor_id"),
    _text("session_id"),
    _text("user_id"),
    _text("unix_user"),
    Column("started_at", Double, nullable=False),
    _json("family"),
)

#: One row: the number of the last commit. After a connection broke it tells what became of it.
last_commit = Table(
    "last_commit",
    metadata,
    Column("one", SmallInteger, primary_key=True, autoincrement=False),
    _number("number"),
)

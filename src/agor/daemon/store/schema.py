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


def _hash(name: str) -> Column[bytes]:
    return Column(name, LargeBinary, nullable=False)


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
    _text("password_hash", optional=True),
    _number("disabled_at", optional=True),
    Index("ix_users_name", "name", unique=True),
)

permission_rules = Table(
    "permission_rules",
    metadata,
    _id("rule_id"),
    _text("user_id"),
    _text("effect"),
    _text("scope"),
    _text("scope_id"),
    _text("tool"),
    _text("reason", optional=True),
    _text("permission_id", optional=True),
    _number("created_at"),
    _number("expires_at", optional=True),
    _number("revoked_at", optional=True),
    _json("input", optional=True),
    _json("exact_input", optional=True),
    Index("ix_permission_rules_user", "user_id", "created_at", "rule_id"),
)

repos = Table(
    "repos",
    metadata,
    _id("repo_id"),
    _text("user_id"),
    _text("name"),
    _text("path"),
    _text("url", optional=True),
    _text("status"),
    _number("created_at"),
    _json("problem", optional=True),
    Index("ix_repos_created", "created_at", "repo_id"),
    Index("ix_repos_user", "user_id", "created_at", "repo_id"),
)

worktrees = Table(
    "worktrees",
    metadata,
    _id("worktree_id"),
    _text("repo_id"),
    _text("user_id"),
    _text("name"),
    _text("path"),
    _text("branch"),
    _text("base"),
    _text("base_commit"),
    _text("status"),
    _number("created_at"),
    Index("ix_worktrees_user", "user_id", "created_at", "worktree_id"),
    Index("ix_worktrees_created", "created_at", "worktree_id"),
    Index("ix_worktrees_repo", "repo_id", "created_at", "worktree_id"),
)

#: Each row's hash is over the hash before it and the row: a change of any row shows.
audit = Table(
    "audit",
    metadata,
    _number("number", key=True),
    _number("at"),
    _text("actor_id", optional=True),
    _text("actor"),
    _text("action"),
    _text("session_id", optional=True),
    _text("subject", optional=True),
    _text("result"),
    _json("detail"),
    _hash("hash"),
    Index("ix_audit_at", "at", "number"),
    Index("ix_audit_actor", "actor_id", "number"),
    Index("ix_audit_session", "session_id", "number"),
    Index("ix_audit_action", "action", "number"),
)

#: How programs come in.
api_tokens = Table(
    "api_tokens",
    metadata,
    _id("token_id"),
    _text("user_id"),
    _text("name"),
    _hash("token_hash"),
    _number("created_at"),
    _number("expires_at", optional=True),
    _number("last_used_at", optional=True),
    _number("revoked_at", optional=True),
    Index("ix_api_tokens_hash", "token_hash", unique=True),
    Index("ix_api_tokens_user", "user_id", "created_at", "token_id"),
)

#: How browsers come in.
sign_ins = Table(
    "sign_ins",
    metadata,
    _id("sign_in_id"),
    _text("user_id"),
    _hash("secret_hash"),
    _number("created_at"),
    _number("expires_at"),
    Index("ix_sign_ins_hash", "secret_hash", unique=True),
    Index("ix_sign_ins_user", "user_id"),
)

shares = Table(
    "shares",
    metadata,
    _id("session_id"),
    _id("user_id"),
    _text("access"),
    _text("created_by"),
    _number("created_at"),
    _number("session_created_at"),
    Index("ix_shares_user", "user_id", "session_created_at", "session_id"),
)

#: `user_id` is empty for what is the whole team's.
credentials = Table(
    "credentials",
    metadata,
    _id("credential_id"),
    _text("user_id"),
    _text("name"),
    _text("base_url", optional=True),
    _text("last_four"),
    _text("set_by"),
    _number("key_version"),
    _number("created_at"),
    _number("updated_at"),
    _number("last_used_at", optional=True),
    _json("agents", optional=True),
    Column("sealed", LargeBinary, nullable=False),
    Index("ix_credentials_name", "user_id", "name", unique=True),
    Index("ix_credentials_version", "key_version"),
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
    _text("worktree_id", optional=True),
    _json("mcp_servers", optional=True),
    Index("ix_sessions_worktree", "worktree_id", **_where("worktree_id IS NOT NULL")),
    Index("ix_sessions_number", "number", unique=True),
    Index("ix_sessions_created", "created_at", "session_id"),
    Index("ix_sessions_user", "user_id", "created_at", "session_id"),
    Index("ix_sessions_user_status", "user_id", "status", "created_at", "session_id"),
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

#: The texts of long blocks that have ended: copies, put together from the deltas of the feed.
message_texts = Table(
    "message_texts",
    metadata,
    _number("session_number", key=True),
    _number("sequence", key=True),
    _number("length"),
    Column("text", LargeBinary, nullable=False),
)

permissions = Table(
    "permission_requests",
    metadata,
    _id("permission_id"),
    _text("user_id"),
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
    _text("decided_rule", optional=True),
    Index("ix_permission_requests_asked", "task_id", "request_id", unique=True),
    Index("ix_permission_requests_created", "created_at", "permission_id"),
    Index("ix_permission_requests_user", "user_id", "created_at", "permission_id"),
    Index("ix_permission_requests_user_status", "user_id", "status", "created_at", "permission_id"),
    Index("ix_permission_requests_status", "status", "created_at", "permission_id"),
    Index("ix_permission_requests_session", "session_id", "status"),
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
    _text("terminal_id", optional=True),
)

terminals = Table(
    "terminals",
    metadata,
    _id("terminal_id"),
    _text("session_id"),
    _text("user_id"),
    _text("executor_id"),
    _text("shell"),
    _text("cwd"),
    _text("status"),
    _number("exit_code", optional=True),
    _text("how", optional=True),
    _number("created_at"),
    _number("ended_at", optional=True),
    Index("ix_terminals_session", "session_id", "created_at", "terminal_id"),
    Index("ix_terminals_open", "terminal_id", **_where("status = 'open'")),
)

#: One row: the number of the last commit. After a connection broke it tells what became of it.
last_commit = Table(
    "last_commit",
    metadata,
    Column("one", SmallInteger, primary_key=True, autoincrement=False),
    _number("number"),
)

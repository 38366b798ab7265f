"""The first tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

PLAIN = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
UNFINISHED = "status IN ('queued', 'dispatching', 'running', 'awaiting_permission', 'stopping')"


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def upgrade() -> None:
    """There is no way back: keep a copy of the database instead."""
    _create_users_and_sessions()
    _create_tasks()
    _create_events_and_messages()
    _create_permissions_and_tokens()
    _create_the_daemons_own()


def _create_users_and_sessions() -> None:
    op.create_table(
        "users",
        sa.Column("user_id", PLAIN, nullable=False),
        sa.Column("name", PLAIN, nullable=False),
        sa.Column("role", PLAIN, nullable=False),
        sa.Column("unix_username", PLAIN),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("user_id", name="pk_users"),
    )
    op.create_table(
        "sessions",
        sa.Column("session_id", PLAIN, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("user_id", PLAIN, nullable=False),
        sa.Column("status", PLAIN, nullable=False),
        sa.Column("agentic_tool", PLAIN, nullable=False),
        sa.Column("workspace", PLAIN, nullable=False),
        sa.Column("title", PLAIN),
        sa.Column("permission_mode", PLAIN, nullable=False),
        sa.Column("model", PLAIN),
        sa.Column("environment", PLAIN, nullable=False),
        sa.Column("agent_session_id", PLAIN),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("session_id", name="pk_sessions"),
    )
    op.create_index("ix_sessions_number", "sessions", ["number"], unique=True)
    op.create_index("ix_sessions_created", "sessions", ["created_at", "session_id"])
    op.create_index("ix_sessions_user", "sessions", ["user_id", "created_at", "session_id"])
    op.create_index("ix_sessions_status", "sessions", ["status", "created_at", "session_id"])


def _create_tasks() -> None:
    op.create_table(
        "tasks",
        sa.Column("task_id", PLAIN, nullable=False),
        sa.Column("session_id", PLAIN, nullable=False),
        sa.Column("user_id", PLAIN, nullable=False),
        sa.Column("status", PLAIN, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("received", sa.BigInteger, nullable=False),
        sa.Column("permission_mode", PLAIN, nullable=False),
        sa.Column("model", PLAIN),
        sa.Column("timeout_ms", sa.BigInteger),
        sa.Column("executor_id", PLAIN),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("survivors", sa.BigInteger),
        sa.Column("tools", sa.LargeBinary, nullable=False),
        sa.Column("result", sa.LargeBinary),
        sa.Column("prompt", PLAIN, nullable=False),
        sa.PrimaryKeyConstraint("task_id", name="pk_tasks"),
    )
    op.create_index("ix_tasks_session", "tasks", ["session_id", "created_at", "task_id"])
    op.create_index("ix_tasks_position", "tasks", ["session_id", "position"])
    op.create_index(
        "ix_tasks_unfinished", "tasks", ["session_id", "position"], **_where(UNFINISHED)
    )


def _create_events_and_messages() -> None:
    op.create_table(
        "events",
        sa.Column("session_number", sa.BigInteger, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("session_number", "sequence", name="pk_events"),
    )
    op.create_table(
        "messages",
        sa.Column("session_number", sa.BigInteger, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("last_sequence", sa.BigInteger),
        sa.Column("block_id", PLAIN, nullable=False),
        sa.Column("task_id", PLAIN, nullable=False),
        sa.Column("kind", PLAIN, nullable=False),
        sa.Column("status", PLAIN),
        sa.Column("length", sa.BigInteger),
        sa.Column("is_error", sa.SmallInteger, nullable=False),
        sa.Column("reason", PLAIN),
        sa.Column("start", sa.LargeBinary, nullable=False),
        sa.Column("tool_input", sa.LargeBinary),
        sa.PrimaryKeyConstraint("session_number", "sequence", name="pk_messages"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_messages_open",
        "messages",
        ["session_number", "task_id", "sequence"],
        **_where("last_sequence IS NULL"),
    )


def _create_permissions_and_tokens() -> None:
    op.create_table(
        "permission_requests",
        sa.Column("permission_id", PLAIN, nullable=False),
        sa.Column("session_id", PLAIN, nullable=False),
        sa.Column("task_id", PLAIN, nullable=False),
        sa.Column("request_id", PLAIN, nullable=False),
        sa.Column("tool_name", PLAIN, nullable=False),
        sa.Column("tool_use_id", PLAIN),
        sa.Column("status", PLAIN, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("decided_at", sa.BigInteger),
        sa.Column("decided_by", PLAIN),
        sa.Column("reason", PLAIN),
        sa.Column("tool_input", sa.LargeBinary, nullable=False),
        sa.Column("updated_input", sa.LargeBinary),
        sa.PrimaryKeyConstraint("permission_id", name="pk_permission_requests"),
    )
    requests = "permission_requests"
    op.create_index(f"ix_{requests}_asked", requests, ["task_id", "request_id"], unique=True)
    op.create_index(f"ix_{requests}_created", requests, ["created_at", "permission_id"])
    op.create_index(f"ix_{requests}_status", requests, ["status", "created_at", "permission_id"])
    op.create_index(f"ix_{requests}_session", requests, ["session_id"])
    op.create_table(
        "tokens",
        sa.Column("token_hash", sa.LargeBinary, nullable=False),
        sa.Column("session_id", PLAIN, nullable=False),
        sa.Column("task_id", PLAIN, nullable=False),
        sa.Column("user_id", PLAIN, nullable=False),
        sa.Column("executor_id", PLAIN, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("max_uses", sa.BigInteger),
        sa.Column("uses", sa.BigInteger, nullable=False),
        sa.Column("revoked_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("token_hash", name="pk_tokens"),
    )
    op.create_index("ix_tokens_task", "tokens", ["task_id"])
    op.create_index("ix_tokens_session", "tokens", ["session_id"])


def _create_the_daemons_own() -> None:
    op.create_table(
        "receipts",
        sa.Column("scope", PLAIN, nullable=False),
        sa.Column("key", PLAIN, nullable=False),
        sa.Column("fingerprint", sa.LargeBinary, nullable=False),
        sa.Column("status", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("scope", "key", name="pk_receipts"),
    )
    op.create_index("ix_receipts_created", "receipts", ["created_at"])
    op.create_table(
        "executors",
        sa.Column("executor_id", PLAIN, nullable=False),
        sa.Column("session_id", PLAIN, nullable=False),
        sa.Column("user_id", PLAIN, nullable=False),
        sa.Column("unix_user", PLAIN, nullable=False),
        sa.Column("started_at", sa.Double, nullable=False),
        sa.Column("family", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("executor_id", name="pk_executors"),
    )
    commits = op.create_table(
        "last_commit",
        sa.Column("one", sa.SmallInteger, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("one", name="pk_last_commit"),
    )
    op.bulk_insert(commits, [{"one": 1, "number": 0}])

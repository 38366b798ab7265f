"""Lists and conversations that stay as fast as they were when they were short."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

PLAIN = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """There is no way back: keep a copy of the database instead."""
    op.create_table(
        "message_texts",
        sa.Column("session_number", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("sequence", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("length", sa.BigInteger, nullable=False),
        sa.Column("text", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("session_number", "sequence", name="pk_message_texts"),
    )
    _copy_from_session("shares", "session_created_at", sa.BigInteger(), "created_at", "0")
    _copy_from_session("permission_requests", "user_id", PLAIN, "user_id", "")
    for name in ("ix_shares_user", "ix_worktrees_repo", "ix_permission_requests_session"):
        op.drop_index(name)
    for name, table, columns in (
        ("ix_shares_user", "shares", ["user_id", "session_created_at", "session_id"]),
        ("ix_worktrees_repo", "worktrees", ["repo_id", "created_at", "worktree_id"]),
        ("ix_worktrees_created", "worktrees", ["created_at", "worktree_id"]),
        ("ix_repos_created", "repos", ["created_at", "repo_id"]),
        (
            "ix_sessions_user_status",
            "sessions",
            ["user_id", "status", "created_at", "session_id"],
        ),
        ("ix_permission_requests_session", "permission_requests", ["session_id", "status"]),
        (
            "ix_permission_requests_user",
            "permission_requests",
            ["user_id", "created_at", "permission_id"],
        ),
        (
            "ix_permission_requests_user_status",
            "permission_requests",
            ["user_id", "status", "created_at", "permission_id"],
        ),
    ):
        op.create_index(name, table, columns)


def _copy_from_session(
    table: str, column: str, kind: sa.types.TypeEngine[Any], source: str, otherwise: str
) -> None:
    """Add a column that holds a value of the row's session, which never changes."""
    op.add_column(
        table, sa.Column(column, kind, nullable=False, server_default=sa.text(f"'{otherwise}'"))
    )
    op.execute(
        f"UPDATE {table} SET {column} = COALESCE((SELECT {source} FROM sessions"  # noqa: S608
        f" WHERE sessions.session_id = {table}.session_id), {column})"
    )

"""Terminals, and the executors that they have."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

PLAIN = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """There is no way back: keep a copy of the database instead."""
    op.add_column("executors", sa.Column("terminal_id", PLAIN))
    op.create_table(
        "terminals",
        sa.Column("terminal_id", PLAIN, nullable=False),
        sa.Column("session_id", PLAIN, nullable=False),
        sa.Column("user_id", PLAIN, nullable=False),
        sa.Column("executor_id", PLAIN, nullable=False),
        sa.Column("shell", PLAIN, nullable=False),
        sa.Column("cwd", PLAIN, nullable=False),
        sa.Column("status", PLAIN, nullable=False),
        sa.Column("exit_code", sa.BigInteger),
        sa.Column("how", PLAIN),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("terminal_id", name="pk_terminals"),
    )
    op.create_index(
        "ix_terminals_session", "terminals", ["session_id", "created_at", "terminal_id"]
    )
    is_open = sa.text("status = 'open'")
    op.create_index(
        "ix_terminals_open", "terminals", ["terminal_id"],
        sqlite_where=is_open, postgresql_where=is_open,
    )  # fmt: skip

"""Tool servers of sessions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """There is no way back: keep a copy of the database instead."""
    op.add_column("sessions", sa.Column("mcp_servers", sa.LargeBinary))

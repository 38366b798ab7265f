"""${message}."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """There is no way back: keep a copy of the database instead."""
    ${upgrades if upgrades else "pass"}

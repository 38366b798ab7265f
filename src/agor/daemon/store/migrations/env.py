"""Alembic's entry: runs the migrations on the connection that `migrate` hands in."""

from __future__ import annotations

from alembic import context

from agor.daemon.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()

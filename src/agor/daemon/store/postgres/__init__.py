"""PostgreSQL, by asyncpg: one connection that writes, a few that read."""

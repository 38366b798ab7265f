"""What the pool process of a chaos run has seen, on disk: it is killed too, and must not forget."""

from __future__ import annotations

import sqlite3
from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS tasks (
    task TEXT PRIMARY KEY, session TEXT, executor TEXT, state TEXT NOT NULL, why TEXT);
CREATE TABLE IF NOT EXISTS events (
    task TEXT, sequence INTEGER, executor TEXT, type TEXT, data TEXT,
    PRIMARY KEY (task, sequence));
CREATE TABLE IF NOT EXISTS faults (what TEXT);
"""


class Ledger:
    """Tasks and their events."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, timeout=30)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        self._db.close()

    def accept(self, task: str, session: str) -> None:
        """Promise to run a task."""
        self._db.execute("INSERT INTO tasks VALUES (?, ?, NULL, 'accepted', NULL)", (task, session))

    def dispatch(self, task: str, executor: str) -> None:
        """Say who runs it, before it is sent there."""
        self._db.execute(
            "UPDATE tasks SET state='running', executor=? WHERE task=?", (executor, task)
        )

    def end(self, task: str, state: str, why: str | None = None) -> None:
        """Say how it ended."""
        self._db.execute(
            "UPDATE tasks SET state=?, why=? WHERE task=? AND state IN ('accepted', 'running')",
            (state, why, task),
        )

    def open_tasks(self) -> list[tuple[str, str, str | None]]:
        """List what has not ended: task, session, executor."""
        return self._db.execute(
            "SELECT task, session, executor FROM tasks WHERE state IN ('accepted', 'running')"
        ).fetchall()

    def count(self, session: str) -> int:
        """Count the tasks of a session."""
        return int(
            self._db.execute("SELECT count(*) FROM tasks WHERE session=?", (session,)).fetchone()[0]
        )

    def add_events(self, rows: list[tuple[str, int, str, str, str]]) -> None:
        """Commit events; one that is there already must be the same."""
        self._db.execute("BEGIN")
        for row in rows:
            done = self._db.execute("INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?, ?)", row)
            if done.rowcount == 0:
                old = self._db.execute(
                    "SELECT * FROM events WHERE task=? AND sequence=?", row[:2]
                ).fetchone()
                if old != row:
                    self.fault(f"event {row[:2]} came as {old} and as {row}")
        self._db.execute("COMMIT")

    def fault(self, what: str) -> None:
        """Note what must not be."""
        self._db.execute("INSERT INTO faults VALUES (?)", (what,))

    # ── the reckoning ────────────────────────────────────────────────────────────────────────

    def faults(self) -> list[str]:
        """List what came twice and differently."""
        return [row[0] for row in self._db.execute("SELECT what FROM faults")]

    def tasks(self) -> list[tuple[str, str, str | None, str, str | None]]:
        """List all tasks."""
        return self._db.execute("SELECT * FROM tasks").fetchall()

    def events(self, task: str) -> list[tuple[int, str, str]]:
        """List a task's events in order: sequence, type, data."""
        return self._db.execute(
            "SELECT sequence, type, data FROM events WHERE task=? ORDER BY sequence", (task,)
        ).fetchall()

"""OpenCode's database, in which it keeps its conversations. It is only read here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from agor.errors import NoTranscript
from agor.protocol.events import TokenUsage

#: Seconds to wait for somebody who writes.
_PATIENCE = 5.0


class Spent(Struct, frozen=True):
    """What a conversation took so far."""

    usage: TokenUsage = TokenUsage()
    cost: float = 0.0

    def since(self, before: Spent) -> Spent:
        """Tell what it took since then."""
        now, then = self.usage, before.usage
        usage = TokenUsage(
            input=max(0, now.input - then.input),
            output=max(0, now.output - then.output),
            cache_read=max(0, now.cache_read - then.cache_read),
            cache_write=max(0, now.cache_write - then.cache_write),
        )
        return Spent(usage, max(0.0, self.cost - before.cost))


def database() -> Path:
    """Tell where it is."""
    return Path.home() / ".local" / "share" / "opencode" / "opencode.db"


def spent(session_id: str) -> Spent:
    """Read what a conversation and its sub-agents took so far; nothing if there is none."""
    with _reading() as rows:
        found = rows(
            "SELECT total(tokens_input), total(tokens_output + tokens_reasoning),"
            " total(tokens_cache_read), total(tokens_cache_write), total(cost)"
            " FROM session WHERE ?1 IN (id, parent_id)",
            session_id,
        )
    *tokens, cost = found[0]
    return Spent(TokenUsage(*(int(count) for count in tokens)), cost)


def last_error(session_id: str) -> dict[str, Any] | None:
    """Read the error of the last message, if it ended with one."""
    with _reading() as rows:
        found = rows(
            "SELECT data FROM message WHERE session_id = ?"
            " ORDER BY time_created DESC, id DESC LIMIT 1",
            session_id,
        )
    error = msgspec.json.decode(found[0][0]).get("error") if found else None
    return error if isinstance(error, dict) else None


def conversation(session_id: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Read a conversation in the form in which OpenCode exports it."""
    with _reading() as rows:
        sessions = rows(
            "SELECT id, slug, project_id, directory, title, version, cost, tokens_input,"
            " tokens_output, tokens_reasoning, tokens_cache_read, tokens_cache_write,"
            " time_created, time_updated FROM session WHERE id = ?",
            session_id,
        )
        if not sessions:
            raise _unknown(session_id)
        messages = rows(
            "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id",
            session_id,
        )
        parts = rows(
            "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY id", session_id
        )
    by_message: dict[str, list[dict[str, Any]]] = {}
    for part_id, message_id, data in parts:
        names = {"id": part_id, "messageID": message_id, "sessionID": session_id}
        by_message.setdefault(message_id, []).append(msgspec.json.decode(data) | names)
    told = [
        {
            "info": msgspec.json.decode(data) | {"id": message_id, "sessionID": session_id},
            "parts": by_message.get(message_id, []),
        }
        for message_id, data in messages
    ]
    return _session(sessions[0]), told


def _session(row: tuple[Any, ...]) -> dict[str, Any]:
    names = ("id", "slug", "projectID", "directory", "title", "version", "cost")
    tokens = dict(zip(("input", "output", "reasoning"), row[7:10], strict=True))
    cache = {"read": row[10], "write": row[11]}
    return dict(zip(names, row[:7], strict=True)) | {
        "tokens": {**tokens, "cache": cache},
        "time": {"created": row[12], "updated": row[13]},
    }


@contextlib.contextmanager
def _reading() -> Iterator[Any]:
    """Give a function that reads rows."""
    import sqlite3

    path = database()
    if not path.is_file():
        raise NoTranscript("OpenCode has no conversations here")
    try:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=_PATIENCE)
        with contextlib.closing(connection):
            # One state for all that is read.
            connection.execute("BEGIN")
            yield lambda query, name: connection.execute(query, (name,)).fetchall()
    except (sqlite3.Error, msgspec.DecodeError) as error:
        raise NoTranscript(f"OpenCode's database cannot be read: {error}") from error


def _unknown(session_id: str) -> NoTranscript:
    return NoTranscript(f"OpenCode has no record of the conversation {session_id[:200]} here")

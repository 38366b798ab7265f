"""Rows to store, with something in every member, and ways to look at what is stored."""

from __future__ import annotations

from typing import Any

from agor.daemon.store.base import EventRun, Statement, Store, Write
from agor.daemon.store.rows import (
    AuditRecord,
    CredentialRow,
    MessageRow,
    PermissionRow,
    ReceiptRow,
    SessionRow,
    TaskRow,
    TerminalRow,
    TokenRow,
    UserRow,
)

#: Text that is easily damaged on the way.
ODD = "Grüße, 世界 🦊 '\"\\ ? $1\n\t"


async def put(store: Store, *statements: Statement) -> None:
    """Commit some statements together."""
    await store.commit(Write(statements))


def some_events(session_number: int, first: int, last: int, body: bytes = b"{}") -> Write:
    """Make a write of events with these sequences, both included."""
    return Write(events=[EventRun(session_number, first, [body] * (last + 1 - first))])


async def sequences(store: Store, session_number: int) -> list[int]:
    """List the sequences of a feed that are stored."""
    found = await store.read(
        "SELECT sequence FROM events WHERE session_number = ? ORDER BY sequence",
        (session_number,),
    )
    return [sequence for (sequence,) in found]


def a_session(name: str = "session-1", number: int = 1, **members: Any) -> SessionRow:
    return SessionRow(
        **{
            "number": number,
            "session_id": name,
            "user_id": "user-1",
            "status": "idle",
            "agentic_tool": "scripted",
            "workspace": "/work/ßpace",
            "title": ODD,
            "permission_mode": "default",
            "model": "model-1",
            "environment": "local",
            "agent_session_id": "theirs-1",
            "created_at": 1_700_000_000_000,
            "updated_at": 1_700_000_000_001,
            **members,
        }
    )


def a_terminal(name: str = "terminal-1", **members: Any) -> TerminalRow:
    return TerminalRow(
        **{
            "terminal_id": name,
            "session_id": "session-1",
            "user_id": "user-1",
            "executor_id": "executor-1",
            "shell": "/bin/bash",
            "cwd": "/work/ßpace",
            "status": "open",
            "created_at": 1_700_000_000_000,
            **members,
        }
    )


def a_task(name: str = "task-1", session: str = "session-1", **members: Any) -> TaskRow:
    return TaskRow(
        **{
            "task_id": name,
            "session_id": session,
            "user_id": "user-1",
            "status": "queued",
            "position": 1,
            "prompt": ODD,
            "permission_mode": "default",
            "model": None,
            "tools": b'["Read"]',
            "timeout_ms": 2**53,
            "executor_id": None,
            "received": 0,
            "created_at": 1_700_000_000_000,
            "started_at": None,
            "ended_at": None,
            "result": None,
            "survivors": None,
            **members,
        }
    )


def a_message(sequence: int = 1, session_number: int = 1, **members: Any) -> MessageRow:
    return MessageRow(
        **{
            "session_number": session_number,
            "sequence": sequence,
            "last_sequence": None,
            "block_id": f"block-{sequence}",
            "task_id": "task-1",
            "kind": "tool_use",
            "start": b'{"kind":"tool_use"}',
            "status": None,
            "reason": None,
            "tool_input": None,
            "length": None,
            "is_error": False,
            **members,
        }
    )


def a_permission(name: str = "permission-1", **members: Any) -> PermissionRow:
    return PermissionRow(
        **{
            "permission_id": name,
            "user_id": "user-1",
            "session_id": "session-1",
            "task_id": "task-1",
            "request_id": f"request-of-{name}",
            "tool_name": "Bash",
            "tool_input": b'{"command":"ls"}',
            "tool_use_id": "use-1",
            "status": "pending",
            "created_at": 1_700_000_000_000,
            "expires_at": 1_700_000_600_000,
            "decided_at": None,
            "decided_by": None,
            "reason": None,
            "updated_input": None,
            **members,
        }
    )


def a_token(token_hash: bytes = b"\x00\xffhash", **members: Any) -> TokenRow:
    return TokenRow(
        **{
            "token_hash": token_hash,
            "session_id": "session-1",
            "task_id": "task-1",
            "user_id": "user-1",
            "executor_id": "executor-1",
            "created_at": 1_700_000_000_000,
            "expires_at": 1_700_086_400_000,
            "max_uses": 3,
            "uses": 0,
            "revoked_at": None,
            **members,
        }
    )


def a_receipt(key: str = "key-1", **members: Any) -> ReceiptRow:
    return ReceiptRow(
        **{
            "scope": "user-1 POST /sessions",
            "key": key,
            "fingerprint": b"\x00\x01\xfe\xff",
            "status": 201,
            "body": ODD.encode(),
            "created_at": 1_700_000_000_000,
            **members,
        }
    )


def a_user(name: str = "user-1", **members: Any) -> UserRow:
    return UserRow(
        **{
            "user_id": name,
            "name": f"{name} {ODD}",
            "role": "owner",
            "unix_username": None,
            "created_at": 1_700_000_000_000,
            **members,
        }
    )


def a_record(subject: str | None = "thing-1", **members: Any) -> AuditRecord:
    return AuditRecord(
        **{
            "at": 1_700_000_000_000,
            "actor_id": "user-1",
            "actor": ODD,
            "action": "thing.done",
            "session_id": None,
            "subject": subject,
            "result": "ok",
            "detail": b'{"how":"well"}',
            **members,
        }
    )


def a_credential(
    name: str = "ANTHROPIC_API_KEY", user: str = "user-1", **members: Any
) -> CredentialRow:
    return CredentialRow(
        **{
            "credential_id": f"{user}-{name}",
            "user_id": user,
            "name": name,
            "base_url": f"https://example.com/{ODD}",
            "last_four": "ab\x1bd",
            "set_by": "user-1",
            "key_version": 1,
            "created_at": 1_700_000_000_000,
            "updated_at": 1_700_000_000_001,
            "last_used_at": None,
            "agents": b'["codex"]',
            "sealed": b"\x00\xffsealed",
            **members,
        }
    )


def pid_of_writer(store: Any) -> int:
    """Tell which process writes for a store of SQLite."""
    pid: int = store._scribe._process.pid
    return pid

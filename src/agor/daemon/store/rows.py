"""The rows that services work with, one structure per table."""

from __future__ import annotations

from msgspec import Struct

from agor.protocol.api import PermissionStatus, SessionStatus, TaskStatus
from agor.protocol.methods import PermissionMode


class SessionRow(Struct, frozen=True, kw_only=True):
    """A session. `number` is its short name inside the database."""

    number: int
    session_id: str
    user_id: str
    status: SessionStatus
    agentic_tool: str
    workspace: str
    title: str | None
    permission_mode: PermissionMode
    model: str | None
    environment: str
    #: How the agent itself calls the conversation, to resume it.
    agent_session_id: str | None
    created_at: int
    updated_at: int


class TaskRow(Struct, frozen=True, kw_only=True):
    """A task."""

    task_id: str
    session_id: str
    user_id: str
    status: TaskStatus
    #: Its place in the queue: lower ones run first.
    position: int
    prompt: str
    permission_mode: PermissionMode
    model: str | None
    #: JSON: the list of tools.
    tools: bytes
    timeout_ms: int | None
    executor_id: str | None
    #: Events of its executor that are stored: the last sequence.
    received: int
    created_at: int
    started_at: int | None
    ended_at: int | None
    #: JSON of a TaskResult, once there is one.
    result: bytes | None
    survivors: int | None


class MessageRow(Struct, frozen=True, kw_only=True):
    """A block's frame. Its text is in the deltas of the feed from `sequence` to `last_sequence`."""

    session_number: int
    sequence: int
    last_sequence: int | None
    block_id: str
    task_id: str
    kind: str
    #: JSON of the BlockStart.
    start: bytes
    status: str | None
    reason: str | None
    #: JSON, if it was changed after the start.
    tool_input: bytes | None
    #: Characters, once it is complete.
    length: int | None
    is_error: bool


class PermissionRow(Struct, frozen=True, kw_only=True):
    """A permission request. (task_id, request_id) is how the executor knows it."""

    permission_id: str
    session_id: str
    task_id: str
    request_id: str
    tool_name: str
    tool_input: bytes
    tool_use_id: str | None
    status: PermissionStatus
    created_at: int
    expires_at: int
    decided_at: int | None
    decided_by: str | None
    reason: str | None
    updated_input: bytes | None


class TokenRow(Struct, frozen=True, kw_only=True):
    """A session token: only its hash."""

    token_hash: bytes
    session_id: str
    task_id: str
    user_id: str
    executor_id: str
    created_at: int
    expires_at: int
    max_uses: int | None
    uses: int
    revoked_at: int | None


class ReceiptRow(Struct, frozen=True, kw_only=True):
    """The answer to a POST that carried an Idempotency-Key."""

    scope: str
    key: str
    #: Hash of what was asked.
    fingerprint: bytes
    status: int
    body: bytes
    created_at: int


class UserRow(Struct, frozen=True, kw_only=True):
    """A person. For now there is one, the owner of this home."""

    user_id: str
    name: str
    role: str
    unix_username: str | None
    created_at: int

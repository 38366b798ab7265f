"""The rows that services work with, one structure per table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    # The process that writes knows rows as values only, and is to start fast.
    from agor.protocol.api import PermissionStatus, SessionStatus, TaskStatus
    from agor.protocol.methods import PermissionMode
    from agor.protocol.people import Role, ShareAccess
    from agor.protocol.rules import RuleEffect, RuleScope
    from agor.protocol.terminal_api import TerminalStatus
    from agor.protocol.workspaces import RepoStatus, WorktreeStatus


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
    #: The worktree that its workspace is, if it is one of ours.
    worktree_id: str | None = None
    #: JSON: its tool servers by name, if it has any.
    mcp_servers: bytes | None = None


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
    """A block's frame. Its text is in the deltas of the feed from `sequence` to `last_sequence`.

    A long one has it in `message_texts` as well, once it has ended.
    """

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
    #: The owner of the session.
    user_id: str
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
    #: What decided it without a person: a rule's id, or `mode:` and the mode.
    decided_rule: str | None = None


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
    """A person. The first one is the owner of this home."""

    user_id: str
    name: str
    role: Role
    unix_username: str | None
    created_at: int
    password_hash: str | None = None
    disabled_at: int | None = None

    def __repr__(self) -> str:
        return f"UserRow({self.user_id!r}, {self.name!r}, {self.role!r})"


class ApiTokenRow(Struct, frozen=True, kw_only=True):
    """A token for a person's programs: only its hash."""

    token_id: str
    user_id: str
    name: str
    token_hash: bytes
    created_at: int
    expires_at: int | None
    last_used_at: int | None
    revoked_at: int | None


class SignInRow(Struct, frozen=True, kw_only=True):
    """A browser that somebody has signed in with: only the hash of its cookie."""

    sign_in_id: str
    user_id: str
    secret_hash: bytes
    created_at: int
    expires_at: int


class ShareRow(Struct, frozen=True, kw_only=True):
    """A session that was shared with somebody."""

    session_id: str
    user_id: str
    access: ShareAccess
    created_by: str
    created_at: int
    #: When the session was created: the order in which shared sessions are listed.
    session_created_at: int


class CredentialRow(Struct, frozen=True, kw_only=True):
    """A key that is kept for somebody, sealed."""

    credential_id: str
    #: Empty for what is the whole team's.
    user_id: str
    name: str
    base_url: str | None
    last_four: str
    #: Who stored it.
    set_by: str
    #: The version of the master key that it is sealed with.
    key_version: int
    created_at: int
    updated_at: int
    last_used_at: int | None
    #: JSON: the agents that may have it; none if its name says that well enough.
    agents: bytes | None
    sealed: bytes


class RuleRow(Struct, frozen=True, kw_only=True):
    """An answer that somebody gave in advance."""

    rule_id: str
    user_id: str
    effect: RuleEffect
    scope: RuleScope
    #: The session, the workspace's path or the person that it is for.
    scope_id: str
    tool: str
    reason: str | None
    #: The question that it was made with, if it was.
    permission_id: str | None
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    #: JSON: patterns by member of the tool's input; none if there is an exact one.
    input: bytes | None
    #: JSON, in the one way that it is always written: the only input that it is about.
    exact_input: bytes | None


class RepoRow(Struct, frozen=True, kw_only=True):
    """A repository that somebody works on."""

    repo_id: str
    user_id: str
    name: str
    path: str
    url: str | None
    status: RepoStatus
    created_at: int
    #: JSON of a Problem: why it could not be cloned.
    problem: bytes | None = None


class WorktreeRow(Struct, frozen=True, kw_only=True):
    """A working tree of a repository, on its own branch."""

    worktree_id: str
    repo_id: str
    user_id: str
    name: str
    path: str
    branch: str
    #: What its branch began at, as it was called, and the commit that this was.
    base: str
    base_commit: str
    status: WorktreeStatus
    created_at: int


class TerminalRow(Struct, frozen=True, kw_only=True):
    """A shell that somebody opened in a session's workspace. Nothing of what was said in it."""

    terminal_id: str
    session_id: str
    #: Who opened it.
    user_id: str
    executor_id: str
    shell: str
    cwd: str
    status: TerminalStatus
    created_at: int
    #: Of the shell, if it ended by itself.
    exit_code: int | None = None
    #: How it ended, in words.
    how: str | None = None
    ended_at: int | None = None


class AuditRecord(Struct, frozen=True, kw_only=True):
    """Something that happened and matters. The store numbers it and chains it to the one before."""

    at: int
    #: Who did it; none if it was the daemon itself, or a stranger.
    actor_id: str | None
    actor: str
    action: str
    session_id: str | None
    #: What it was done to.
    subject: str | None
    result: str
    #: JSON: the rest, by action.
    detail: bytes


class AuditRow(AuditRecord, frozen=True, kw_only=True):
    """A record with its place in the chain."""

    number: int
    #: Over the hash before and all of this row.
    hash: bytes

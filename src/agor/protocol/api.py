"""What the daemon's HTTP interface takes and gives, shared with its client. Pure data.

Times are milliseconds since 1970. Unknown members in what is sent to the daemon are refused: a
misspelt option must not be ignored silently.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

from agor.protocol.events import BlockKind, Problem, TokenUsage, ToolStatus
from agor.protocol.mcp import McpServers
from agor.protocol.methods import PermissionMode

T = TypeVar("T")

SessionStatus = Literal[
    "idle", "queued", "running", "awaiting_permission", "stopping", "failed", "archived"
]
TaskStatus = Literal[
    "queued", "dispatching", "running", "awaiting_permission", "stopping",
    "completed", "failed", "stopped", "timed_out",
]  # fmt: skip
PermissionStatus = Literal["pending", "approved", "denied", "timed_out", "cancelled"]
RuleEffect = Literal["allow", "deny"]
#: What a rule holds for: one session, all sessions of its maker in one workspace, or all of them.
RuleScope = Literal["session", "workspace", "user"]
DecisionScope = Literal["once", "session", "workspace", "user"]

#: No NUL: neither PostgreSQL nor any command takes one.
_TEXT = r"^[^\x00]*$"
Id = Annotated[str, Meta(min_length=1, max_length=64, pattern=_TEXT)]
Name = Annotated[str, Meta(min_length=1, max_length=256, pattern=_TEXT)]
Title = Annotated[str, Meta(max_length=500, pattern=_TEXT)]
FolderPath = Annotated[str, Meta(min_length=1, max_length=4096, pattern=_TEXT)]
Prompt = Annotated[str, Meta(min_length=1, max_length=1_000_000, pattern=_TEXT)]
Reason = Annotated[str, Meta(max_length=10_000, pattern=_TEXT)]
Time = Annotated[int, Meta(ge=0, le=2**53)]
ToolPattern = Annotated[str, Meta(min_length=1, max_length=1024, pattern=_TEXT)]
#: By member of a tool's input: its name, or a JSON Pointer to it.
InputPatterns = Annotated[
    dict[
        Annotated[str, Meta(min_length=1, max_length=256, pattern=_TEXT)],
        Annotated[str, Meta(max_length=1000, pattern=_TEXT)],
    ],
    Meta(max_length=20),
]


class Sent(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of what is sent to the daemon."""


class Given(Struct, kw_only=True, gc=False):
    """Base of what the daemon gives; every member is always there."""


class Page(Given, Generic[T]):
    """A part of a list; `next_cursor` asks for the part after it, and is null at the end."""

    items: list[T]
    next_cursor: str | None = None


# ── sessions ─────────────────────────────────────────────────────────────────────────────────


class NewSession(Sent):
    """A conversation to begin: in a folder, a worktree, or a new worktree of a repository."""

    agentic_tool: Name
    workspace: FolderPath | None = None
    worktree_id: Id | None = None
    repo_id: Id | None = None
    title: Title | None = None
    permission_mode: PermissionMode = "default"
    model: Name | None = None
    environment: Name | None = None
    mcp_servers: McpServers = {}


class SessionChange(Sent):
    """What to change of a session; what is absent stays."""

    title: Title | UnsetType | None = UNSET
    permission_mode: PermissionMode | UnsetType = UNSET
    model: Name | UnsetType | None = UNSET
    archived: bool | UnsetType = UNSET
    mcp_servers: McpServers | UnsetType = UNSET


class Session(Given):
    """One conversation with one agent."""

    session_id: str
    status: SessionStatus
    agentic_tool: str
    workspace: str
    title: str | None
    permission_mode: PermissionMode
    model: str | None
    environment: str
    user_id: str
    created_at: int
    updated_at: int
    #: The worktree that its workspace is, if it is one of ours. Older feeds do not say.
    worktree_id: str | None = None
    #: The names of its tool servers; their settings are for its agent only.
    mcp_servers: list[str] = []


# ── tasks ────────────────────────────────────────────────────────────────────────────────────


class NewPrompt(Sent):
    """A task for a session's agent."""

    prompt: Prompt
    permission_mode: PermissionMode | None = None
    model: Name | None = None
    tools: Annotated[list[Name], Meta(max_length=1000)] = []
    timeout_ms: Annotated[int, Meta(ge=1, le=2**53)] | None = None


class PromptAccepted(Given):
    """The prompt is safe and will be run. `queue_position` counts from 1; null if it is next."""

    task_id: str
    session_id: str
    status: TaskStatus
    queue_position: int | None = None


class TaskState(Given):
    """How a task stands; what the feed tells of it."""

    task_id: str
    session_id: str
    #: Who prompted.
    user_id: str
    status: TaskStatus
    permission_mode: PermissionMode
    model: str | None
    queue_position: int | None
    created_at: int
    started_at: int | None
    ended_at: int | None
    executor_id: str | None
    message_count: int | None
    token_usage: TokenUsage | None
    cost: float | None
    error: Problem | None
    #: Processes that were left after a stop; none if that was not looked at.
    survivors: int | None


class Task(TaskState):
    """One prompt, from its acceptance to its result."""

    prompt: str


class TaskMove(Sent):
    """Where in the queue a task shall be, from 1."""

    queue_position: Annotated[int, Meta(ge=1, le=2**31)]


class TaskStop(Sent):
    """Why a task is stopped, for the record."""

    reason: Reason | None = None


# ── messages ─────────────────────────────────────────────────────────────────────────────────


class Message(Given):
    """One block of the conversation, as far as it is told."""

    message_id: str
    task_id: str
    kind: BlockKind
    parent_tool_use_id: str | None
    tool_use_id: str | None
    tool_name: str | None
    tool_input: dict[str, Any] | None
    status: ToolStatus | None
    reason: str | None
    text: str
    #: Characters of the whole text; more than `text` has if it was cut for this answer.
    length: int
    complete: bool
    is_error: bool
    #: Where in the feed it begins.
    sequence: int


class Messages(Given):
    """A part of a conversation, and how far in the feed it reaches: follow on from `sequence`."""

    items: list[Message]
    next_cursor: str | None
    sequence: int


# ── permissions ──────────────────────────────────────────────────────────────────────────────


class Permission(Given):
    """May this tool run? A record that outlives whoever asked."""

    permission_id: str
    session_id: str
    task_id: str
    tool_name: str
    tool_input: dict[str, Any]
    tool_use_id: str | None
    status: PermissionStatus
    created_at: int
    expires_at: int
    decided_at: int | None
    decided_by: str | None
    reason: str | None
    updated_input: dict[str, Any] | None
    #: What decided it without a person: a rule's id, or `mode:` and the mode. Feeds of earlier
    #: daemons do not have it.
    decided_rule: str | None = None


class DecisionRule(Sent):
    """What else an answer is for. What is absent is exactly as in the request."""

    tool: ToolPattern | None = None
    input: InputPatterns | None = None
    expires_at: Time | None = None


class Decision(Sent):
    """An answer to a permission request. With a scope other than `once` it makes a rule as well."""

    approved: bool
    scope: DecisionScope = "once"
    reason: Reason | None = None
    updated_input: dict[str, Any] | None = None
    rule: DecisionRule | None = None


# ── the daemon itself ────────────────────────────────────────────────────────────────────────


class ExecutorInfo(Given):
    """One executor that runs now."""

    executor_id: str
    session_id: str
    user_id: str
    unix_user: str
    state: str
    started_at: int
    #: The terminal that it is for; none if it is for the session's tasks.
    terminal_id: str | None = None


class Check(Given):
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str


class Health(Given):
    """How the daemon is."""

    status: Literal["ok", "degraded", "stopping"]
    version: str
    uptime_ms: int
    checks: list[Check]


class ProblemDetails(Given):
    """An error, as RFC 9457 has it, with our code."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str | None = None


# ── the feed ─────────────────────────────────────────────────────────────────────────────────

#: Events of the daemon's own, beside those of `protocol.events`: a session, a task or a permission
#: is new or has changed; the data is that object: `Session`, `TaskState` or `Permission`.
DAEMON_EVENTS = ("session", "task", "permission")


class FeedEvent(Struct, gc=False):
    """One event of a session's feed, as its clients get it."""

    sequence: int
    type: str
    task_id: str | None
    data: Any
    created_at: int

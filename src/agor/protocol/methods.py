"""Every call between the daemon and the executor, with the forms of its params and results.

Unknown members are ignored, so that a newer daemon can talk to an older executor of the same
major version; known ones are checked.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct

from agor.protocol.events import EventType, Name, TaskResult
from agor.protocol.forms import Form, Identifier, Nothing, Token
from agor.protocol.mcp import McpServer
from agor.protocol.terminals import (
    AckTerminalParams,
    AttachTerminalParams,
    AttachTerminalResult,
    CloseTerminalParams,
    DetachTerminalParams,
    ReportTerminalParams,
    ResizeTerminalParams,
    SpawnTerminalParams,
    SpawnTerminalResult,
    TerminalInfo,
    TerminalInputParams,
)
from agor.protocol.transcripts import (
    PrepareSessionParams,
    PrepareSessionResult,
    ReadTranscriptParams,
    ReadTranscriptResult,
)
from agor.protocol.validation import Method, Notice

#: The major number must be the same on both ends.
PROTOCOL_VERSION = "1.0"

Sequence = Annotated[int, Meta(ge=1)]
Milliseconds = Annotated[int, Meta(ge=0, le=2**53)]
PermissionMode = Literal["default", "acceptEdits", "plan", "bypassPermissions"]

# ── daemon → executor ────────────────────────────────────────────────────────────────────────


class AgentInfo(Form):
    """One agent that the executor knows, and why it cannot be used if it cannot."""

    name: str
    available: bool
    version: str | None = None
    why_not: str | None = None


class TaskInfo(Form):
    """How far a task of this executor is, so that a daemon which comes back can take over."""

    task_id: str
    state: Literal["running", "stopping", "completed", "failed", "cancelled"]
    last_sequence: int
    acked_sequence: int


class InitializeParams(Form):
    """The daemon introduces itself; from now on events go to this connection."""

    protocol_version: Annotated[str, Meta(pattern=r"^\d+\.\d+$")]
    daemon_id: Identifier


class InitializeResult(Form):
    """Who answers, and what it can do and is doing."""

    protocol_version: str
    executor_id: str
    pid: int
    unix_user: str
    agents: list[AgentInfo]
    capabilities: list[str]
    tasks: list[TaskInfo]
    terminals: list[TerminalInfo] = []


class PingResult(Struct, gc=False):
    """The executor's clock in milliseconds. Positional and bare: it is the hot path."""

    pong: bool
    timestamp: int


class ExecutePromptParams(Form):
    """One task: run this agent on this prompt in this folder."""

    session_token: Token
    session_id: Identifier
    task_id: Identifier
    agentic_tool: Identifier
    prompt: str
    cwd: Annotated[str, Meta(min_length=1)]
    tools: list[str] = []
    permission_mode: PermissionMode = "default"
    model: str | None = None
    resume: str | None = None
    timeout_ms: Annotated[int, Meta(ge=1, le=2**53)] | None = None
    stream: bool = True
    #: Tool servers by name, with the names of credentials and not their values.
    mcp_servers: dict[str, McpServer] = {}


class StopTaskParams(Form):
    """End one task, by name, so that a late stop cannot hit the next one."""

    session_token: Token
    task_id: Identifier
    reason: str | None = None


class StopTaskResult(Form):
    """Whether this call is what ended the task; if not, the message says why."""

    stopped: bool
    message: str | None = None


class AckMessagesParams(Form):
    """Everything of this task up to this sequence is durably stored."""

    task_id: Identifier
    sequence: Sequence


class ShutdownParams(Form):
    """End, letting running tasks finish within the time given."""

    reason: str = "asked to"
    timeout_ms: Milliseconds = 5000


class ShutdownResult(Form):
    """idle: nothing was running; completed: it finished in time; interrupted: it was cut."""

    status: Literal["completed", "interrupted", "idle"]


# ── executor → daemon ────────────────────────────────────────────────────────────────────────


class GetApiKeyParams(Form):
    """A task needs a key, now; if there is none of that name, one of the others will do."""

    session_token: Token
    credential_key: Identifier
    or_else: Annotated[list[Identifier], Meta(max_length=8)] = []


class GetApiKeyResult(Form):
    """The key, for the one agent program that needs it."""

    api_key: str
    base_url: str | None = None
    expires_at: int | None = None
    #: Which of the names that were asked for it is.
    credential_key: str | None = None


class RequestPermissionParams(Form):
    """May this tool run? Asked again with the same request_id after a reconnect."""

    session_token: Token
    task_id: Identifier
    request_id: Name
    tool_name: Name
    tool_input: dict[str, Any]
    tool_use_id: Name | None = None


class RequestPermissionResult(Form):
    """The decision, and possibly a changed input to run the tool with."""

    approved: bool
    reason: str | None = None
    updated_input: dict[str, Any] | None = None


class ReportMessageParams(Struct, gc=False):
    """One event. Its payload stays raw: it is stored and passed on as it came."""

    session_token: Token
    task_id: Identifier
    sequence: Sequence
    timestamp: int
    event_type: EventType
    event_data: Raw

    __repr__ = Form.__repr__
    __rich_repr__ = Form.__rich_repr__


INITIALIZE = Method("initialize", InitializeParams, InitializeResult)
PING = Method("ping", Nothing, PingResult)
PREPARE_SESSION = Method("prepare_session", PrepareSessionParams, PrepareSessionResult)
EXECUTE_PROMPT = Method("execute_prompt", ExecutePromptParams, TaskResult)
STOP_TASK = Method("stop_task", StopTaskParams, StopTaskResult)
READ_TRANSCRIPT = Method("read_transcript", ReadTranscriptParams, ReadTranscriptResult)
SPAWN_TERMINAL = Method("spawn_terminal", SpawnTerminalParams, SpawnTerminalResult)
ATTACH_TERMINAL = Method("attach_terminal", AttachTerminalParams, AttachTerminalResult)
DETACH_TERMINAL = Notice("detach_terminal", DetachTerminalParams)
RESIZE_TERMINAL = Method("resize_terminal", ResizeTerminalParams, Nothing)
CLOSE_TERMINAL = Method("close_terminal", CloseTerminalParams, Nothing)
TERMINAL_INPUT = Method("terminal_input", TerminalInputParams, Nothing)
ACK_TERMINAL = Notice("ack_terminal", AckTerminalParams)
ACK_MESSAGES = Notice("ack_messages", AckMessagesParams)
ASSIGNED = Notice("assigned", Nothing)
SHUTDOWN = Method("shutdown", ShutdownParams, ShutdownResult)

GET_API_KEY = Method("get_api_key", GetApiKeyParams, GetApiKeyResult)
REQUEST_PERMISSION = Method("request_permission", RequestPermissionParams, RequestPermissionResult)
REPORT_MESSAGE = Notice("report_message", ReportMessageParams)
REPORT_TERMINAL = Notice("report_terminal", ReportTerminalParams)

TO_EXECUTOR: tuple[Method[Any, Any] | Notice[Any], ...] = (
    INITIALIZE, PING, PREPARE_SESSION, EXECUTE_PROMPT, STOP_TASK, READ_TRANSCRIPT, SPAWN_TERMINAL,
    ATTACH_TERMINAL, DETACH_TERMINAL, RESIZE_TERMINAL, CLOSE_TERMINAL, TERMINAL_INPUT, ACK_TERMINAL,
    ACK_MESSAGES, ASSIGNED, SHUTDOWN,
)  # fmt: skip
TO_DAEMON: tuple[Method[Any, Any] | Notice[Any], ...] = (
    GET_API_KEY, REQUEST_PERMISSION, REPORT_MESSAGE, REPORT_TERMINAL,
)  # fmt: skip

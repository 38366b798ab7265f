"""Rows as the outside sees them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from agor.daemon.services import tool_servers
from agor.daemon.store.rows import PermissionRow, RuleRow, SessionRow, TaskRow, TerminalRow
from agor.errors import Unprocessable
from agor.protocol.api import Page, Permission, Session, Task, TaskState
from agor.protocol.events import TaskResult
from agor.protocol.rules import NewRule, PermissionRule
from agor.protocol.terminal_api import Terminal

Row = TypeVar("Row")
View = TypeVar("View")

_result = msgspec.json.Decoder(TaskResult)


def session(row: SessionRow) -> Session:
    """Show a session."""
    return Session(
        session_id=row.session_id,
        status=row.status,
        agentic_tool=row.agentic_tool,
        workspace=row.workspace,
        title=row.title,
        permission_mode=row.permission_mode,
        model=row.model,
        environment=row.environment,
        user_id=row.user_id,
        created_at=row.created_at,
        updated_at=row.updated_at,
        worktree_id=row.worktree_id,
        mcp_servers=sorted(tool_servers.read(row)),
    )


def _task_members(row: TaskRow, queue_position: int | None) -> dict[str, Any]:
    result = None if row.result is None else _result.decode(row.result)
    return {
        "task_id": row.task_id,
        "session_id": row.session_id,
        "user_id": row.user_id,
        "status": row.status,
        "permission_mode": row.permission_mode,
        "model": row.model,
        "queue_position": queue_position,
        "created_at": row.created_at,
        "started_at": row.started_at,
        "ended_at": row.ended_at,
        "executor_id": row.executor_id,
        "message_count": result and result.message_count,
        "token_usage": result and result.token_usage,
        "cost": result and result.cost,
        "error": result and result.error,
        "survivors": row.survivors,
    }


def task(row: TaskRow, queue_position: int | None = None) -> Task:
    """Show a task with its prompt."""
    return Task(prompt=row.prompt, **_task_members(row, queue_position))


def task_state(row: TaskRow, queue_position: int | None = None) -> TaskState:
    """Show how a task stands."""
    return TaskState(**_task_members(row, queue_position))


def permission(row: PermissionRow) -> Permission:
    """Show a permission request."""
    return Permission(
        permission_id=row.permission_id,
        session_id=row.session_id,
        task_id=row.task_id,
        tool_name=row.tool_name,
        tool_input=msgspec.json.decode(row.tool_input),
        tool_use_id=row.tool_use_id,
        status=row.status,
        created_at=row.created_at,
        expires_at=row.expires_at,
        decided_at=row.decided_at,
        decided_by=row.decided_by,
        reason=row.reason,
        updated_input=_decoded(row.updated_input),
        decided_rule=row.decided_rule,
    )


def terminal(row: TerminalRow, clients: int) -> Terminal:
    """Show a terminal."""
    return Terminal(
        terminal_id=row.terminal_id,
        session_id=row.session_id,
        user_id=row.user_id,
        status=row.status,
        shell=row.shell,
        cwd=row.cwd,
        executor_id=row.executor_id,
        clients=clients,
        created_at=row.created_at,
        ended_at=row.ended_at,
        exit_code=row.exit_code,
        how=row.how,
    )


def rule(row: RuleRow) -> PermissionRule:
    """Show a rule."""
    return PermissionRule(
        rule_id=row.rule_id,
        user_id=row.user_id,
        effect=row.effect,
        tool=row.tool,
        scope=row.scope,
        scope_id=row.scope_id,
        input=_decoded(row.input),
        exact_input=_decoded(row.exact_input),
        reason=row.reason,
        permission_id=row.permission_id,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )


def rule_to_send(row: RuleRow) -> NewRule:
    """Show a rule as it can be made again."""
    return NewRule(
        effect=row.effect,
        tool=row.tool,
        scope=row.scope,
        scope_id=None if row.scope == "user" else row.scope_id,
        input=_decoded(row.input),
        exact_input=_decoded(row.exact_input),
        expires_at=row.expires_at,
        reason=row.reason,
    )


def _decoded(written: bytes | None) -> Any:
    return None if written is None else msgspec.json.decode(written)


#: What the large members of a page may have together.
PAGE_BYTES = 8 * 1024 * 1024

# ── pages ────────────────────────────────────────────────────────────────────────────────────


def page(
    rows: Sequence[Row],
    limit: int,
    show: Callable[[Row], View],
    key: Callable[[Row], tuple[int, str]],
    size: Callable[[Row], int] = lambda _: 0,
) -> Page[View]:
    """Make a page of one row more than was asked for, which tells whether there is a next one.

    It has fewer if they are large, one at least.
    """
    shown: list[Row] = []
    room = PAGE_BYTES
    for row in rows[:limit]:
        room -= size(row)
        if room < 0 and shown:
            break
        shown.append(row)
    at, row_id = key(shown[-1]) if len(rows) > len(shown) else (0, "")
    cursor = f"{at}.{row_id}" if row_id else None
    return Page(items=[show(row) for row in shown], next_cursor=cursor)


def read_cursor(cursor: str | None) -> tuple[int, str] | None:
    """Read a cursor that `page` made."""
    if cursor is None:
        return None
    at, dot, row_id = cursor.partition(".")
    if not dot or not at.isdecimal() or len(at) > 18 or not row_id or "\0" in row_id:
        raise Unprocessable(
            "cursor: this is none of ours", hint="Use next_cursor of the answer before, as it is."
        )
    return int(at), row_id

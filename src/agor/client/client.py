"""The client: one method per use case of the daemon."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from weakref import WeakSet

from msgspec import UNSET, UnsetType

from agor.client.address import Find, fixed, of_home
from agor.client.audit import AuditCalls
from agor.client.calls import Calls
from agor.client.credentials import CredentialCalls
from agor.client.feed import Feed, until_ended
from agor.client.ids import in_path
from agor.client.people import Tokens, Users
from agor.client.rules import Rules
from agor.client.shares import Shares
from agor.client.terminals import AttachedTerminal, TerminalCalls
from agor.client.transcripts import TranscriptCalls
from agor.client.workspaces import Repos, Worktrees
from agor.errors import TimedOut
from agor.home import Home
from agor.protocol.api import (
    Decision,
    DecisionRule,
    DecisionScope,
    ExecutorInfo,
    Health,
    Messages,
    NewPrompt,
    NewSession,
    Page,
    Permission,
    PermissionStatus,
    PromptAccepted,
    Session,
    SessionChange,
    SessionStatus,
    Task,
    TaskMove,
    TaskStatus,
    TaskStop,
)  # fmt: skip
from agor.protocol.mcp import McpServer
from agor.protocol.methods import PermissionMode
from agor.protocol.terminal_api import NewTerminal, Terminal

_ATTEMPTS = 8
_RECONNECT_TIMEOUT = 60.0
#: Seconds for a session whose worktree is to be made.
_MAKING = 1000.0


class Client:
    """A client of one daemon. Use it with `async with`, or `close` it.

    `attempts` is how often a call is tried that is safe to repeat; `reconnect_timeout`, for how
    many seconds a feed looks for a daemon that is gone (None: for ever). `find` is for a daemon
    that moves: it tells where that is now.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        attempts: int = _ATTEMPTS,
        reconnect_timeout: float | None = _RECONNECT_TIMEOUT,
        find: Find | None = None,
    ) -> None:
        address = fixed(url, token)
        self._url = address.url
        self._find = find or (lambda: address)
        self._reconnect_timeout = reconnect_timeout
        self._calls = Calls(self._find, attempts)
        self.audit = AuditCalls(self._calls)
        #: People's API keys.
        self.credentials = CredentialCalls(self._calls)
        self._terminals = TerminalCalls(self._calls)
        self._feeds: WeakSet[Feed | AttachedTerminal] = WeakSet()
        self.users = Users(self._calls)
        self.tokens = Tokens(self._calls)
        self.rules = Rules(self._calls)
        self.shares = Shares(self._calls)
        #: Agents' own records of sessions.
        self.transcripts = TranscriptCalls(self._calls)
        self.repos = Repos(self._calls)
        self.worktrees = Worktrees(self._calls)

    @classmethod
    def local(
        cls,
        home: Home | None = None,
        *,
        attempts: int = _ATTEMPTS,
        reconnect_timeout: float | None = _RECONNECT_TIMEOUT,
    ) -> Self:
        """Make a client of this machine's daemon: the one of AGOR_HOME, if not told which.

        It finds the daemon again after a restart. Raises `DaemonNotRunning` if there is none now.
        """
        place = Home.find() if home is None else home
        address = of_home(place)
        return cls(
            address.url, address.token, find=lambda: of_home(place),
            attempts=attempts, reconnect_timeout=reconnect_timeout,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"Client({self._url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection, those of feeds and terminals as well."""
        for feed in list(self._feeds):
            await feed.close()
        await self._calls.close()

    # ── sessions ─────────────────────────────────────────────────────────────────────────────

    async def create_session(
        self,
        agentic_tool: str,
        workspace: str | Path | None = None,
        *,
        worktree_id: str | None = None,
        repo_id: str | None = None,
        title: str | None = None,
        permission_mode: PermissionMode = "default",
        model: str | None = None,
        environment: str | None = None,
        mcp_servers: Mapping[str, McpServer] | None = None,
        key: str | None = None,
    ) -> Session:
        """Begin a conversation with an agent: in a folder or a worktree.

        With a `repo_id`, a worktree is made for it. `mcp_servers` are tools beside the agent's own.
        """
        new = NewSession(
            agentic_tool=agentic_tool, workspace=None if workspace is None else str(workspace),
            worktree_id=worktree_id, repo_id=repo_id, title=title,
            permission_mode=permission_mode, model=model, environment=environment,
            mcp_servers=dict(mcp_servers or {}),
        )  # fmt: skip
        return await self._calls.ask(
            "POST", "/sessions", Session, body=new, key=_key(key),
            timeout=None if repo_id is None else _MAKING,
        )  # fmt: skip

    def sessions(self, *, status: SessionStatus | None = None) -> AsyncIterator[Session]:
        """List sessions, the newest first."""
        return self._calls.list("/sessions", Page[Session], {"status": status})

    async def session(self, session_id: str) -> Session:
        """Show a session."""
        return await self._calls.ask("GET", f"/sessions/{in_path(session_id)}", Session)

    async def change_session(
        self,
        session_id: str,
        *,
        title: str | UnsetType | None = UNSET,
        permission_mode: PermissionMode | UnsetType = UNSET,
        model: str | UnsetType | None = UNSET,
        archived: bool | UnsetType = UNSET,
        mcp_servers: Mapping[str, McpServer] | UnsetType = UNSET,
    ) -> Session:
        """Change a session; what is not given stays."""
        change = SessionChange(
            title=title, permission_mode=permission_mode, model=model, archived=archived,
            mcp_servers=UNSET if mcp_servers is UNSET else dict(mcp_servers),
        )  # fmt: skip
        path = f"/sessions/{in_path(session_id)}"
        return await self._calls.ask("PATCH", path, Session, body=change)

    async def delete_session(self, session_id: str) -> None:
        """Delete a session and all that was said in it."""
        await self._calls.ask("DELETE", f"/sessions/{in_path(session_id)}", None)

    async def messages(
        self, session_id: str, *, cursor: str | None = None, limit: int = 50
    ) -> Messages:
        """Show a part of the conversation, the newest first; `next_cursor` asks for the one before.

        A feed that is followed from its `sequence` goes on where the first part ends.
        """
        return await self._calls.ask(
            "GET", f"/sessions/{in_path(session_id)}/messages", Messages,
            query={"cursor": cursor, "limit": limit},
        )  # fmt: skip

    # ── tasks ────────────────────────────────────────────────────────────────────────────────

    async def prompt(
        self,
        session_id: str,
        prompt: str,
        *,
        permission_mode: PermissionMode | None = None,
        model: str | None = None,
        tools: Sequence[str] = (),
        timeout_ms: int | None = None,
        key: str | None = None,
    ) -> PromptAccepted:
        """Give a session's agent a prompt. Once this returns it is safe, and is run once.

        With the same `key` it is the same prompt, also for a program that was started again.
        """
        new = NewPrompt(
            prompt=prompt, permission_mode=permission_mode, model=model, tools=list(tools),
            timeout_ms=timeout_ms,
        )  # fmt: skip
        path = f"/sessions/{in_path(session_id)}/prompt"
        return await self._calls.ask("POST", path, PromptAccepted, body=new, key=_key(key))

    async def task(self, task_id: str) -> Task:
        """Show a task."""
        return await self._calls.ask("GET", f"/tasks/{in_path(task_id)}", Task)

    def tasks(self, session_id: str, *, status: TaskStatus | None = None) -> AsyncIterator[Task]:
        """List a session's tasks, the newest first."""
        return self._calls.list(
            f"/sessions/{in_path(session_id)}/tasks", Page[Task], {"status": status}
        )

    async def move_task(self, task_id: str, queue_position: int) -> Task:
        """Give a waiting task another place in its queue, from 1."""
        move = TaskMove(queue_position=queue_position)
        return await self._calls.ask("PATCH", f"/tasks/{in_path(task_id)}", Task, body=move)

    async def stop_task(
        self, task_id: str, *, reason: str | None = None, key: str | None = None
    ) -> Task:
        """Stop a task. It is `stopping` then, and `stopped` once nothing of it is left."""
        stop, path = TaskStop(reason=reason), f"/tasks/{in_path(task_id)}/stop"
        return await self._calls.ask("POST", path, Task, body=stop, key=_key(key))

    async def wait_task(self, task_id: str, *, timeout: float | None = None) -> Task:
        """Wait until a task has ended, however; raises `TimedOut`."""
        try:
            async with asyncio.timeout(timeout):
                task = await self.task(task_id)
                if task.ended_at is None:
                    known = await self.messages(task.session_id, limit=1)
                    # Asked again: it may have ended before the place where we begin to follow.
                    task = await self.task(task_id)
                    if task.ended_at is None:
                        async with self.follow(task.session_id, known.sequence) as feed:
                            await until_ended(feed, task_id)
                        task = await self.task(task_id)
                return task
        except TimeoutError:
            raise TimedOut(f"the task has not ended within {timeout:g} s") from None

    # ── terminals ────────────────────────────────────────────────────────────────────────────

    async def open_terminal(
        self,
        session_id: str,
        *,
        cols: int = 80,
        rows: int = 24,
        shell: str | None = None,
        term: str = "xterm-256color",
        key: str | None = None,
    ) -> Terminal:
        """Open a shell in a session's workspace, as the Unix user that the session runs as.

        It is tried once, unless a `key` makes it safe to repeat.
        """
        new = NewTerminal(cols=cols, rows=rows, shell=shell, term=term)
        return await self._terminals.open(session_id, new, key)

    async def terminals(self, session_id: str) -> list[Terminal]:
        """List a session's terminals, the newest first; also the last that ended."""
        return await self._terminals.of_session(session_id)

    async def open_terminals(self) -> list[Terminal]:
        """List one's own terminals that are open, the newest first."""
        return await self._terminals.open_ones()

    async def terminal(self, terminal_id: str) -> Terminal:
        """Show a terminal."""
        return await self._terminals.get(terminal_id)

    async def close_terminal(self, terminal_id: str) -> None:
        """Close a terminal with all that runs in it."""
        await self._terminals.close(terminal_id)

    def attach_terminal(self, terminal_id: str, after: int = 0) -> AttachedTerminal:
        """Attach to a terminal: all that it printed behind `after`, and whatever it prints.

        Cuts and restarts are not noticed, as long as the daemon comes back.
        """
        attached = AttachedTerminal(
            self._find, self._terminals, in_path(terminal_id), after, self._reconnect_timeout
        )
        self._feeds.add(attached)
        return attached

    # ── permissions ──────────────────────────────────────────────────────────────────────────

    def permissions(self, *, status: PermissionStatus | None = None) -> AsyncIterator[Permission]:
        """List permission requests, the newest first."""
        return self._calls.list("/permissions", Page[Permission], {"status": status})

    async def permission(self, permission_id: str) -> Permission:
        """Show a permission request."""
        return await self._calls.ask("GET", f"/permissions/{in_path(permission_id)}", Permission)

    async def decide(
        self,
        permission_id: str,
        approved: bool,
        *,
        scope: DecisionScope = "once",
        rule: DecisionRule | None = None,
        reason: str | None = None,
        updated_input: dict[str, Any] | None = None,
        key: str | None = None,
    ) -> Permission:
        """Answer a permission request; the first answer counts.

        With a `scope` other than `once` the same is decided by itself from now on: for exactly this
        input, or as `rule` says.
        """
        decision = Decision(
            approved=approved, scope=scope, rule=rule, reason=reason, updated_input=updated_input
        )
        path = f"/permissions/{in_path(permission_id)}/decision"
        return await self._calls.ask("POST", path, Permission, body=decision, key=_key(key))

    # ── the daemon ───────────────────────────────────────────────────────────────────────────

    async def executors(self) -> list[ExecutorInfo]:
        """List the executors that run now."""
        return (await self._calls.ask("GET", "/executors", Page[ExecutorInfo])).items

    async def health(self) -> Health:
        """Tell how the daemon is."""
        return await self._calls.ask("GET", "/health", Health)

    # ── the feed ─────────────────────────────────────────────────────────────────────────────

    def follow(self, session_id: str, after: int = 0) -> Feed:
        """Follow a session's feed: all events behind `after`, and then whatever happens.

        Cuts and restarts are not noticed, as long as the daemon comes back.
        """
        feed = Feed(self._find, in_path(session_id), after, self._reconnect_timeout)
        self._feeds.add(feed)
        return feed


def _key(given: str | None) -> str:
    return uuid.uuid4().hex if given is None else given

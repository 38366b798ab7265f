"""Sessions, as people use them."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from agor.daemon.services import access, tool_servers, views
from agor.daemon.services.audit.records import record
from agor.daemon.services.credentials import agent_keys
from agor.daemon.services.executors import Executors
from agor.daemon.services.line import Entry, spelled
from agor.daemon.services.live import LiveSessions, Turn, outlast
from agor.daemon.services.principal import Principal
from agor.daemon.services.receipts import Receipt
from agor.daemon.services.stamps import new_id, time_of
from agor.daemon.services.terminals.terminals import Terminals
from agor.daemon.services.workspaces.workspaces import Ground, Workspaces
from agor.daemon.store import sessions
from agor.daemon.store.base import Store, Write
from agor.daemon.store.rows import SessionRow
from agor.errors import Conflict, Unprocessable
from agor.protocol.api import NewSession, Page, Session, SessionChange, SessionStatus
from agor.protocol.people import Whose
from agor.protocol.validation import quoted


class Sessions:
    """The sessions of everybody."""

    def __init__(
        self,
        store: Store,
        lives: LiveSessions,
        executors: Executors,
        workspaces: Workspaces,
        terminals: Terminals,
        environment: str,
    ) -> None:
        self._store = store
        self._lives = lives
        self._executors = executors
        self._workspaces = workspaces
        self._terminals = terminals
        self._environment = environment

    async def create(
        self, who: Principal, new: NewSession, receipt: Receipt | None = None
    ) -> Session:
        """Begin a conversation."""
        _check_agent(new.agentic_tool)
        servers = tool_servers.write(new.mcp_servers)
        environment = new.environment or self._environment
        if environment != "local":
            raise Unprocessable(
                f"environment: there is no kind {quoted(environment)}", hint='There is "local".'
            )
        ground = await self._workspaces.prepare(who, new)
        try:
            return await self._begin(who, new, environment, ground, servers, receipt)
        except BaseException:
            await self._workspaces.abandon(who, ground)
            raise

    async def _begin(
        self,
        who: Principal,
        new: NewSession,
        environment: str,
        ground: Ground,
        servers: bytes | None,
        receipt: Receipt | None,
    ) -> Session:
        session_id = new_id()
        created = time_of(session_id)
        row = SessionRow(
            number=self._lives.next_number(),
            session_id=session_id,
            user_id=who.user_id,
            status="idle",
            agentic_tool=new.agentic_tool,
            workspace=ground.workspace,
            worktree_id=ground.worktree_id,
            title=new.title,
            permission_mode=new.permission_mode,
            model=new.model,
            environment=environment,
            agent_session_id=None,
            created_at=created,
            updated_at=created,
            mcp_servers=servers,
        )
        made = views.session(row)
        told = spelled("session", None, msgspec.json.encode(made), created)
        noted = record(
            "session.made", who, session_id=row.session_id, agent=row.agentic_tool,
            workspace=row.workspace,
        )  # fmt: skip
        others = () if receipt is None else (receipt.statement(201, made),)
        await self._lives.make(row, told, noted, *others)
        return made

    async def page(
        self,
        who: Principal,
        whose: Whose | None,
        status: SessionStatus | None,
        cursor: str | None,
        limit: int,
    ) -> Page[Session]:
        """List sessions, the newest first."""
        circle = access.circle_of(who, whose)
        before = views.read_cursor(cursor)
        rows = await sessions.page(self._store, circle, status, before, limit + 1)
        return views.page(rows, limit, views.session, lambda row: (row.created_at, row.session_id))

    async def get(self, who: Principal, session_id: str) -> Session:
        """Show a session."""
        return views.session((await self._lives.get_for(who, session_id, "session.view")).row)

    async def change(self, who: Principal, session_id: str, change: SessionChange) -> Session:
        """Change what may be changed."""
        session = await self._lives.get_for(who, session_id, "session.change")
        async with Turn(session) as live:
            names = ("title", "permission_mode", "model", "archived")
            changes = {
                name: value for name in names if (value := getattr(change, name)) is not UNSET
            }
            if change.mcp_servers is not UNSET:
                changes["mcp_servers"] = tool_servers.write(change.mcp_servers)
            if changes.get("archived") and (live.current is not None or live.queue):
                raise Conflict("this session has work to do", hint="Stop its tasks first.")
            if changes:
                await live.commit(Entry(), current=live.current, queue=live.queue, **changes)
            if live.row.status == "archived":
                await self._terminals.close_session(session_id, "its session was archived", who)
            return views.session(live.row)

    async def delete(self, who: Principal, session_id: str) -> None:
        """Remove a session and all that was said in it."""
        session = await self._lives.get_for(who, session_id, "session.delete")
        async with Turn(session) as live:
            if live.current is not None or live.queue:
                raise Conflict("this session has work to do", hint="Stop its tasks first.")
            await self._terminals.close_session(session_id, "its session was deleted", who)
            await self._executors.stop(session_id, "its session was deleted")
            await live.channel.line.flushed()
            removal = Write(
                sessions.delete(live.row),
                records=[record("session.deleted", who, session_id=session_id)],
            )
            await outlast(self._store.commit(removal))
            self._lives.forget(live)


def _check_agent(name: str) -> None:
    if not agent_keys.is_known(name):
        known = ", ".join(sorted(agent_keys.NEEDS))
        raise Unprocessable(
            f"agentic_tool: there is no agent {quoted(name)}",
            hint=f"There are {known}, and acp: with the command of any agent that speaks ACP.",
        )

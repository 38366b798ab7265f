"""Opening terminals: each gets an executor of its own, and is known once its shell runs.

Before it is committed nobody knows of it. So a daemon that dies in between leaves an executor
without a terminal, which the next one ends.
"""

from __future__ import annotations

import asyncio

import structlog

from agor.daemon.pool.ending import Ending
from agor.daemon.pool.settings import Claim
from agor.daemon.services import views
from agor.daemon.services.audit.records import record
from agor.daemon.services.executors import Executors
from agor.daemon.services.live import LiveSession, LiveSessions, Turn, outlast
from agor.daemon.services.people.people import People
from agor.daemon.services.principal import Principal
from agor.daemon.services.receipts import Receipt
from agor.daemon.services.stamps import new_id, time_of
from agor.daemon.services.terminals.endings import Endings
from agor.daemon.services.terminals.live import LiveTerminal
from agor.daemon.services.terminals.registry import OpenTerminals
from agor.daemon.services.workspaces.workspaces import Workspaces
from agor.daemon.store import terminals
from agor.daemon.store.base import Store, Write
from agor.daemon.store.rows import TerminalRow
from agor.errors import (
    Conflict,
    ExecutorFailed,
    InvalidParams,
    PoolExhausted,
    RpcError,
    Unprocessable,
)
from agor.execution import ExecutionEnvironment
from agor.protocol.terminal_api import NewTerminal, Terminal
from agor.protocol.terminals import SpawnTerminalParams, SpawnTerminalResult

log = structlog.get_logger("agor.terminals")

#: Seconds to wait for an executor where all are in use. Somebody sits before it.
PATIENCE = 10.0


class Openings:
    """Opens terminals."""

    def __init__(
        self,
        store: Store,
        lives: LiveSessions,
        executors: Executors,
        people: People,
        workspaces: Workspaces,
        opened: OpenTerminals,
        endings: Endings,
        timeout: float,
    ) -> None:
        self._store = store
        self._lives = lives
        self._executors = executors
        self._people = people
        self._workspaces = workspaces
        self._opened = opened
        self._endings = endings
        self._timeout = timeout
        self.patience = PATIENCE

    async def open(
        self, who: Principal, session_id: str, new: NewTerminal, receipt: Receipt | None
    ) -> Terminal:
        """Open a shell in a session's workspace, as the session's Unix user."""
        live = await self._lives.get_for(who, session_id, "terminal.open")
        self._refuse_if_closed(live)
        with self._opened.room(session_id):
            claim = self._claim(live, new_id())
            await self._workspaces.check_reachable(live.row)
            environment = await self._acquire(claim)
            try:
                spawned = await self._spawn(environment, claim, live, new)
                return await self._commit(who, live, claim, environment, spawned, receipt)
            except BaseException:
                await self._give_up(claim)
                raise

    def _refuse_if_closed(self, live: LiveSession) -> None:
        if live.row.status == "archived":
            raise Conflict(
                "this session is archived", hint='PATCH it with {"archived": false} first.'
            )
        self._workspaces.refuse_if_leaving(live.row)

    def _claim(self, live: LiveSession, terminal_id: str) -> Claim:
        user_id = live.row.user_id
        return Claim(
            session_id=live.session_id,
            user_id=user_id,
            unix_username=self._people.unix_username(user_id),
            terminal_id=terminal_id,
        )

    async def _acquire(self, claim: Claim) -> ExecutionEnvironment:
        try:
            async with asyncio.timeout(self.patience):
                return await self._executors.acquire(claim)
        except TimeoutError:
            raise PoolExhausted(
                f"no executor was free within {self.patience:g} s, and a terminal needs one of "
                "its own",
                hint="Close a terminal (agor terminal list) or stop a session, or raise "
                "execution.max_executors.",
            ) from None

    async def _spawn(
        self, environment: ExecutionEnvironment, claim: Claim, live: LiveSession, new: NewTerminal
    ) -> SpawnTerminalResult:
        assert claim.terminal_id is not None
        params = SpawnTerminalParams(
            terminal_id=claim.terminal_id,
            cwd=live.row.workspace,
            shell=new.shell,
            env={"TERM": new.term},
            cols=new.cols,
            rows=new.rows,
        )
        try:
            return await environment.terminals.spawn(params)
        except InvalidParams as error:
            raise Unprocessable(error.message.removeprefix("params."), hint=error.hint) from None
        except RpcError as error:
            raise ExecutorFailed(
                f"the shell could not be started: {error.message}", hint=error.hint
            ) from error

    async def _commit(
        self,
        who: Principal,
        live: LiveSession,
        claim: Claim,
        environment: ExecutionEnvironment,
        spawned: SpawnTerminalResult,
        receipt: Receipt | None,
    ) -> Terminal:
        async with Turn(live):
            # In our turn, and again: it took a while, and what was so before may not be any more.
            live.check(self._people.as_now(who), "terminal.open")
            self._refuse_if_closed(live)
            if self._claim(live, spawned.terminal_id) != claim:
                raise Conflict("the Unix user of this session has changed", hint="Try again.")
            row = TerminalRow(
                terminal_id=spawned.terminal_id,
                session_id=live.session_id,
                user_id=who.user_id,
                executor_id=environment.executor_id,
                shell=spawned.shell,
                cwd=live.row.workspace,
                status="open",
                created_at=time_of(spawned.terminal_id),
            )
            told = views.terminal(row, 0)
            statements = [terminals.insert(row)]
            if receipt is not None:
                statements.append(receipt.statement(201, told))
            opened = record(
                "terminal.opened", who, session_id=row.session_id, subject=row.terminal_id,
                shell=row.shell, executor=row.executor_id, pid=spawned.pid,
            )  # fmt: skip
            write = Write(statements, records=[opened])
            await outlast(self._store.commit(write))
            self._endings.watch(LiveTerminal(row, environment, self._endings, self._timeout))
        return told

    async def _give_up(self, claim: Claim) -> None:
        """End the executor of a terminal that is none. Whoever asked may be gone by now."""
        stop = asyncio.ensure_future(
            self._executors.stop(claim.seat, "its terminal could not be opened")
        )
        stop.add_done_callback(_log_failure)
        await asyncio.shield(stop)


def _log_failure(stop: asyncio.Future[Ending | None]) -> None:
    if not stop.cancelled() and (error := stop.exception()) is not None:
        log.error("executor_not_ended", exc_info=error)

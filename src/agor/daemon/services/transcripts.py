"""The agents' own records of conversations, read through the executor of their session.

The record is in the home of the session's Unix user, and only the session's owner may read it: an
agent writes more into it than it tells. An executor is started for it if there is none.
"""

from __future__ import annotations

import asyncio

from agor.daemon.pool.settings import Claim
from agor.daemon.services.executors import Executors
from agor.daemon.services.live import LiveSession, LiveSessions
from agor.daemon.services.people.people import People
from agor.daemon.services.principal import Principal
from agor.daemon.services.workspaces.workspaces import Workspaces
from agor.errors import Conflict, NotFound, PoolExhausted, RpcError, Unprocessable
from agor.execution import Conversation
from agor.protocol.transcripts import ReadTranscriptResult, TranscriptForm

#: Seconds to wait for an executor, where all are in use.
_PATIENCE = 30.0


class SessionTranscripts:
    """Reads records back."""

    def __init__(
        self, lives: LiveSessions, executors: Executors, people: People, workspaces: Workspaces
    ) -> None:
        self._lives = lives
        self._executors = executors
        self._people = people
        self._workspaces = workspaces

    async def read(
        self, who: Principal, session_id: str, form: TranscriptForm, cursor: str | None
    ) -> ReadTranscriptResult:
        """Read the next part of a session's record."""
        live = await self._lives.get_for(who, session_id, "session.transcript")
        which = _conversation(live)
        self._workspaces.refuse_if_leaving(live.row)
        if not self._executors.has(session_id):
            await self._workspaces.check_reachable(live.row)
        claim = Claim(
            session_id=session_id,
            user_id=live.row.user_id,
            unix_username=self._people.unix_username(live.row.user_id),
        )
        try:
            async with asyncio.timeout(_PATIENCE):
                environment = await self._executors.acquire(claim)
        except TimeoutError:
            raise PoolExhausted(
                f"no executor was free in {_PATIENCE:g} s", hint="Try again later."
            ) from None
        try:
            return await environment.read_transcript_part(which, form, cursor)
        except RpcError as error:
            if error.code == "no_transcript":
                raise NotFound(error.message, hint=error.hint) from None
            if error.code == "invalid_params":
                raise Unprocessable(error.message, hint=error.hint) from None
            raise
        finally:
            self._executors.release(session_id, environment)


def _conversation(live: LiveSession) -> Conversation:
    row = live.row
    if row.agent_session_id is None:
        raise Conflict(
            "the agent of this session has no record of it yet", hint="Give it a prompt first."
        )
    return Conversation(row.session_id, row.agentic_tool, row.agent_session_id, row.workspace)

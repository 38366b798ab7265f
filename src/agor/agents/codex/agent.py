"""Runs turns of Codex: one conversation with one app-server that stays between prompts."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from agor.agents.base import Agent
from agor.agents.codex.app_server import AppServer, Json, Message, ServerRefusedError
from agor.agents.codex.approvals import Approvals
from agor.agents.codex.config import OPENAI, PROVIDER, Settings, turn_settings, version
from agor.agents.codex.faults import fault_of, is_sure
from agor.agents.codex.telling import Telling
from agor.agents.codex.transcripts import CodexTranscripts
from agor.agents.environment import find_program
from agor.agents.transcripts import Transcripts
from agor.agents.turn import Turn
from agor.errors import AgentFailed, NoTranscript
from agor.protocol.events import Log, MetadataUpdate
from agor.protocol.methods import AgentInfo

#: The names that its key may have, the usual one first.
KEYS = ("OPENAI_API_KEY", "CODEX_API_KEY")


class CodexAgent(Agent):
    """One conversation with Codex."""

    name: ClassVar[str] = "codex"
    transcripts: ClassVar[Transcripts | None] = CodexTranscripts()

    def __init__(self) -> None:
        self._server: AppServer | None = None
        self._settings: Settings | None = None
        self._thread_id: str | None = None
        self._model = ""
        self._effort: str | None = None
        self._subagents: dict[str, str] = {}

    @classmethod
    def describe(cls) -> AgentInfo:
        """Tell whether its program is here."""
        if find_program("codex") is None:
            why = "not installed; `agor agent install codex` does it"
            return AgentInfo(name=cls.name, available=False, why_not=why)
        return AgentInfo(name=cls.name, available=True, version=version())

    async def run(self, turn: Turn) -> None:
        """Work on the prompt."""
        key = await turn.fetch_key(*KEYS)
        credential = key.credential_key or KEYS[0]
        servers = await turn.mcp_servers()
        settings = Settings(key.api_key, key.base_url or OPENAI, servers, turn.params.tools)
        try:
            server = await self._ready(settings, turn)
            await self._turn(server, turn, settings.api_key, credential)
        except ServerRefusedError as error:
            raise AgentFailed(f"codex: {error}") from None
        except asyncio.CancelledError:
            # An interrupt would leave the commands running; this does not.
            await asyncio.shield(self.close())
            raise

    async def close(self) -> None:
        """End the server."""
        if self._server is not None:
            await self._server.stop()

    # ── the conversation ─────────────────────────────────────────────────────────────────────

    async def _ready(self, settings: Settings, turn: Turn) -> AppServer:
        """Have a server with these settings that is in the conversation."""
        if self._server is not None and self._settings == settings and not self._server.ended:
            return self._server
        await self.close()
        server = self._server = await AppServer.start(
            settings.command(), cwd=turn.params.cwd, env=settings.environment()
        )
        self._settings = settings
        # Tool servers are started with the conversation, and may fail before its turn begins.
        server.listen()
        params = {
            "cwd": turn.params.cwd,
            "model": turn.params.model,
            "modelProvider": PROVIDER,
            "approvalPolicy": "untrusted",
            "approvalsReviewer": "user",
            "config": settings.conversation(),
        }
        resumed = self._thread_id or turn.params.resume
        if resumed is None:
            told = await server.call("thread/start", params)
        else:
            told = await _resume(server, resumed, params)
        self._thread_id, self._model = told["thread"]["id"], told["model"]
        self._effort = told.get("reasoningEffort")
        return server

    async def _turn(self, server: AppServer, turn: Turn, key: str, credential: str) -> None:
        assert self._thread_id is not None
        self._model = turn.params.model or self._model
        await turn.tell(MetadataUpdate(model=self._model))
        telling = Telling(turn, self._thread_id, self._subagents)
        approvals = Approvals(server, turn, telling)
        messages = server.listen()
        asked = turn.params
        params: Json = {
            "threadId": self._thread_id,
            "cwd": asked.cwd,
            "model": self._model,
            "input": [{"type": "text", "text": asked.prompt, "text_elements": []}],
            **turn_settings(asked.permission_mode, asked.tools, self._model, self._effort),
        }
        try:
            async with asyncio.TaskGroup() as tasks:
                waiting = [tasks.create_task(server.call("turn/start", params))]
                try:
                    while (message := await messages.get()) is not None:
                        if message.id is not None:
                            waiting.append(tasks.create_task(approvals.answer(message)))
                        elif await self._take(message, turn, telling, key, credential):
                            break
                    else:
                        raise await server.explain_end()
                finally:
                    for task in waiting:
                        task.cancel()
            await telling.end()
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
        finally:
            server.ignore()

    async def _take(
        self, message: Message, turn: Turn, telling: Telling, key: str, credential: str
    ) -> bool:
        """Take what the server tells; true when the turn is over."""
        params = message.params
        own = params.get("threadId") == self._thread_id
        match message.method:
            case "turn/started" | "turn/completed" | "error" | "warning" if not own:
                pass  # A sub-agent's; what came of it is for the agent that began it.
            case "turn/started":
                # Only from here on is there a record that can be resumed.
                turn.agent_session_id = self._thread_id
                await turn.tell(MetadataUpdate(agent_session_id=self._thread_id))
                await telling.take(message)
            case "error":
                fault = fault_of(params.get("error"), key, credential)
                if is_sure(fault):
                    raise fault
                if params.get("willRetry"):
                    await turn.tell(Log("warning", f"trying again: {fault.message}"))
            case "mcpServer/startupStatus/updated" if params.get("status") == "failed":
                words = f"the MCP server {params.get('name')} did not start: {params.get('error')}"
                await turn.tell(Log("warning", words))
            case "warning":
                await turn.tell(Log("warning", str(params.get("message"))))
            case "turn/completed":
                ended = params["turn"]
                if ended["status"] == "failed":
                    raise fault_of(ended.get("error"), key, credential)
                if ended["status"] != "completed":
                    raise AgentFailed(f"codex left its turn {ended['status']}")
                return True
            case _:
                await telling.take(message)
        return False


async def _resume(server: AppServer, thread_id: str, params: Json) -> Json:
    try:
        told: Json = await server.call(
            "thread/resume", params | {"threadId": thread_id, "excludeTurns": True}
        )
    except ServerRefusedError as error:
        raise NoTranscript(
            f"codex cannot go on with the conversation {thread_id}: {error}",
            hint="Begin another session.",
        ) from None
    return told


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Find the first error of several that came at once."""
    found: BaseException = errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found

"""Runs turns of Codex: one conversation with one app-server that stays between prompts."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from agor.agents.base import Agent
from agor.agents.codex.app_server import AppServer, Json, ServerRefusedError
from agor.agents.codex.config import OPENAI, PROVIDER, Settings, turn_settings, version
from agor.agents.codex.telling import Telling
from agor.agents.codex.transcripts import CodexTranscripts
from agor.agents.codex.turns import CodexTurn
from agor.agents.environment import find_program
from agor.agents.transcripts import Transcripts
from agor.agents.turn import Turn
from agor.errors import AgentFailed, NoTranscript
from agor.protocol.events import MetadataUpdate
from agor.protocol.methods import AgentInfo, ExecutePromptParams

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
        # Each time: it is how another key, or none any more, takes effect.
        key = await turn.fetch_key(*KEYS)
        servers = await turn.mcp_servers()
        settings = Settings(key.api_key, key.base_url or OPENAI, servers, turn.params.tools)
        try:
            server, thread_id = await self._ready(settings, turn.params)
            self._model = turn.params.model or self._model
            await turn.tell(MetadataUpdate(model=self._model))
            telling = Telling(turn, thread_id, self._subagents)
            await CodexTurn(server, thread_id, turn, telling, key).run(self._prompt(turn.params))
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

    async def _ready(self, settings: Settings, asked: ExecutePromptParams) -> tuple[AppServer, str]:
        """Have a server with these settings that is in the conversation."""
        if self._server is not None and self._settings == settings and not self._server.ended:
            assert self._thread_id is not None
            return self._server, self._thread_id
        await self.close()
        server = self._server = await AppServer.start(
            settings.command(), cwd=asked.cwd, env=settings.environment()
        )
        self._settings = settings
        # Tool servers are started with the conversation, and may fail before its turn begins.
        server.listen()
        told = await self._open(server, self._thread_id or asked.resume, asked)
        thread_id: str = told["thread"]["id"]
        self._thread_id, self._model = thread_id, told["model"]
        self._effort = told.get("reasoningEffort")
        return server, thread_id

    async def _open(
        self, server: AppServer, resumed: str | None, asked: ExecutePromptParams
    ) -> Json:
        """Begin the conversation, or go on with the one there was."""
        assert self._settings is not None
        params: Json = {
            "cwd": asked.cwd,
            "model": asked.model,
            "modelProvider": PROVIDER,
            "approvalPolicy": "untrusted",
            "approvalsReviewer": "user",
            "config": self._settings.conversation(),
        }
        told: Json
        if resumed is None:
            told = await server.call("thread/start", params)
            return told
        try:
            params |= {"threadId": resumed, "excludeTurns": True}
            told = await server.call("thread/resume", params)
        except ServerRefusedError as error:
            raise NoTranscript(
                f"codex cannot go on with the conversation {resumed}: {error}",
                hint="Begin another session.",
            ) from None
        return told

    def _prompt(self, asked: ExecutePromptParams) -> Json:
        """Make the params of a turn."""
        return {
            "threadId": self._thread_id,
            "cwd": asked.cwd,
            "model": self._model,
            "input": [{"type": "text", "text": asked.prompt, "text_elements": []}],
            **turn_settings(asked.permission_mode, asked.tools, self._model, self._effort),
        }

"""The agent `claude-code`."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

from agor.agents.base import Agent
from agor.agents.claude import installed
from agor.agents.claude.transcripts import ClaudeTranscripts
from agor.agents.modes import NATIVE
from agor.agents.turn import Turn
from agor.protocol.methods import AgentInfo

if TYPE_CHECKING:
    from agor.agents.claude.conversation import Conversation
    from agor.agents.claude.launch import Launch, Talk

_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")


class ClaudeAgent(Agent):
    """A conversation with Claude Code, whose program stays between the turns."""

    name = "claude-code"
    transcripts = ClaudeTranscripts()

    def __init__(self) -> None:
        self._conversation: Conversation | None = None

    @classmethod
    def describe(cls) -> AgentInfo:
        """Look whether the SDK is there, without importing it."""
        found = installed.find()
        return AgentInfo(
            name=cls.name,
            available=found is not None,
            version=installed.version(),
            why_not=None if found is not None else installed.WHY_NOT,
        )

    async def run(self, turn: Turn) -> None:
        """Put the prompt to the program that is running, or to one that is started now."""
        launch = await self._launch(turn)
        conversation, talk = await self._open(turn, launch)
        await conversation.run(turn, talk)

    async def close(self) -> None:
        """End the program."""
        conversation, self._conversation = self._conversation, None
        if conversation is not None:
            await asyncio.shield(conversation.close())

    async def _launch(self, turn: Turn) -> Launch:
        from agor.agents.claude.launch import Launch

        # Each time: it is how another key, or none any more, takes effect.
        key = await turn.fetch_key(*_KEYS)
        servers = await turn.mcp_servers()
        return Launch(str(installed.need()), turn.params.cwd, key, servers)

    async def _open(self, turn: Turn, launch: Launch) -> tuple[Conversation, Talk]:
        from agor.agents.claude.conversation import Conversation

        talk = self._talk(turn)
        running = self._conversation
        if running is not None:
            if running.launch == launch:
                return running, talk
            await self.close()
        if talk.resumed:
            self.transcripts.need(talk.conversation, launch.cwd)
        self._conversation = Conversation(launch, talk)
        await self._conversation.open()
        return self._conversation, talk

    def _talk(self, turn: Turn) -> Talk:
        from agor.agents.claude.launch import Talk

        params = turn.params
        mode = NATIVE[self.name][params.permission_mode]
        assert mode is not None
        resumed = params.resume is not None
        return Talk(params.resume or str(uuid.uuid4()), resumed, params.model, mode)

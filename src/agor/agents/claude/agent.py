"""The agent `claude-code`."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import uuid
from importlib import import_module
from typing import TYPE_CHECKING

from agor.agents.base import Agent
from agor.agents.claude import installed
from agor.agents.claude.launch import API_KEY, AUTH_TOKEN, Launch, Talk
from agor.agents.claude.transcripts import ClaudeTranscripts
from agor.agents.modes import NATIVE
from agor.agents.programs import Program
from agor.agents.turn import Turn
from agor.protocol.methods import AgentInfo

if TYPE_CHECKING:
    from agor.agents.claude.conversation import Conversation

#: Needs the SDK, which takes a second to import.
_HEAVY = "agor.agents.claude.conversation"
#: What the SDK itself imports with the first prompt.
_LATE = "anyio._backends._asyncio"


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
            version=None if found is None else installed.version_of(found),
            why_not=None if found is not None else installed.WHY_NOT,
        )

    @classmethod
    def import_ahead(cls) -> None:
        """Import the SDK."""
        if installed.find() is not None:
            import_module(_HEAVY)
            with contextlib.suppress(ImportError):
                import_module(_LATE)

    async def run(self, turn: Turn) -> None:
        """Put the prompt to the program that is running, or to one that is started now."""
        # Each time: it is how another key, or none any more, takes effect.
        key = await turn.fetch_key(API_KEY, AUTH_TOKEN)
        launch = Launch(
            program=str(installed.need()),
            cwd=turn.params.cwd,
            api_key=key.api_key,
            credential=key.credential_key or API_KEY,
            base_url=key.base_url,
            servers=await turn.mcp_servers(),
        )
        talk = _talk(turn)
        conversation = self._conversation
        if conversation is None or conversation.launch != launch or conversation.ended:
            await self.close()
            conversation = await self._open(launch, talk)
        await conversation.run(turn, talk)

    async def close(self) -> None:
        """End the program."""
        conversation, self._conversation = self._conversation, None
        if conversation is not None:
            await asyncio.shield(conversation.close())

    async def _open(self, launch: Launch, talk: Talk) -> Conversation:
        if talk.resumed:
            self.transcripts.need(talk.conversation, launch.cwd)
        program = await launch.start(talk)
        try:
            conversation = await _converse(launch, talk, program)
            await conversation.open()
        except BaseException:
            await asyncio.shield(program.stop())
            raise
        self._conversation = conversation
        return conversation


def _talk(turn: Turn) -> Talk:
    params = turn.params
    mode = NATIVE[ClaudeAgent.name][params.permission_mode]
    assert mode is not None
    conversation = params.resume or str(uuid.uuid4())
    return Talk(conversation, params.resume is not None, params.model, mode)


async def _converse(launch: Launch, talk: Talk, program: Program) -> Conversation:
    if _HEAVY not in sys.modules:
        # While the program comes up, and without keeping anybody else waiting.
        await asyncio.to_thread(import_module, _HEAVY)
    from agor.agents.claude.conversation import Conversation

    return Conversation(launch, talk, program)

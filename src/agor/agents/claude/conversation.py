"""One running Claude Code and its conversation: prompts go in, one turn after the other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any, cast

import structlog
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    Message,
    PermissionMode,
)

from agor.agents.claude.connection import Connection
from agor.agents.claude.launch import NAME, Launch, Talk
from agor.agents.claude.permissions import Permissions
from agor.agents.claude.turns import ClaudeTurn
from agor.agents.programs import Program
from agor.agents.turn import Turn
from agor.errors import AgentEnded, AgentFailed, AgorError

log = structlog.get_logger("agor.agents.claude")
# What the SDK logs is raised as well, and our log has lines of one form only.
logging.getLogger("claude_agent_sdk").addHandler(logging.NullHandler())

#: Seconds for Claude to end its tools and its turn once it is interrupted.
_INTERRUPT = 2.0
#: Seconds for Claude to say that it is idle, once it told that the turn has failed.
_IDLE = 2.0


class Conversation:
    """A program that was started, and the conversation that it is in."""

    def __init__(self, launch: Launch, talk: Talk, program: Program) -> None:
        self.launch = launch
        self._talk = talk
        self._program = program
        self._permissions = Permissions()
        options = ClaudeAgentOptions(
            can_use_tool=self._permissions.may_use,
            # A hook that fails must not let a call through.
            hooks={
                "PreToolUse": [
                    HookMatcher(hooks=[self._permissions.before_tool], on_failure="block")
                ]
            },
            forward_subagent_text=True,
        )
        self._client = ClaudeSDKClient(options, transport=Connection(program))

    @property
    def ended(self) -> bool:
        """Whether the program is gone, for whatever reason."""
        return self._program.exited

    async def open(self) -> None:
        """Wait until the program answers."""
        with _faults_of_ours():
            await self._client.connect()

    async def run(self, turn: Turn, talk: Talk) -> None:
        """Put a prompt and tell all that comes of it."""
        own = str(uuid.uuid4())
        current = ClaudeTurn(turn, own, self._permissions.calls, self.launch.credential)
        self._permissions.begin(turn)
        try:
            with _faults_of_ours():
                await self._adapt(talk)
                await self._client.query(_prompt(turn.params.prompt, own))
                await self._follow(current)
                if current.fault is not None:
                    turn.over = current.over
                    raise current.fault
                if current.hopeless is not None:
                    await self._interrupt(current)
                    raise current.hopeless
        except asyncio.CancelledError:
            await asyncio.shield(self._interrupt(current))
            raise
        except AgorError:
            await current.close()
            raise
        finally:
            self._permissions.end()
        if current.mode is not None:
            self._talk = Talk(talk.conversation, talk.resumed, talk.model, current.mode)

    async def close(self) -> None:
        """End the program; the connection bounds how long that takes."""
        await self._client.disconnect()

    async def _adapt(self, talk: Talk) -> None:
        """Tell a running program which model and mode are wanted now."""
        if talk.model != self._talk.model:
            await self._client.set_model(talk.model)
        if talk.mode != self._talk.mode:
            await self._client.set_permission_mode(cast("PermissionMode", talk.mode))
        self._talk = talk

    async def _follow(self, current: ClaudeTurn) -> None:
        messages = cast("AsyncGenerator[Message]", self._client.receive_messages())
        patience = asyncio.timeout(None)
        try:
            async with patience, contextlib.aclosing(messages):
                async for message in messages:
                    await current.take(message)
                    if current.over or (current.hopeless is not None and not current.interrupted):
                        return
                    if current.fault is not None and patience.when() is None:
                        patience.reschedule(asyncio.get_running_loop().time() + _IDLE)
            raise AgentEnded(f"{NAME} said nothing more in the middle of a turn")  # noqa: TRY301
        except Exception:
            # Of a turn that has failed anyway, nobody needs to know more.
            if current.fault is None:
                raise

    async def _interrupt(self, current: ClaudeTurn) -> None:
        """Let Claude end its tools and write down how far it came, and tell that; then end it."""
        current.interrupted = True
        try:
            async with asyncio.timeout(_INTERRUPT):
                await self._client.interrupt()
                await self._follow(current)
        except Exception as error:  # noqa: BLE001 - whatever it is, the program is ended
            log.info("claude_not_interrupted", why=str(error) or type(error).__name__)
        await self.close()


async def _prompt(text: str, own: str) -> AsyncIterator[dict[str, Any]]:
    """Make the message of a prompt, under an id that it comes back with once it is taken up."""
    yield {
        "type": "user",
        "message": {"role": "user", "content": text},
        "parent_tool_use_id": None,
        "uuid": own,
    }


@contextlib.contextmanager
def _faults_of_ours() -> Iterator[None]:
    """Make what the SDK raises, of whatever type, something that people can read."""
    try:
        yield
    except AgorError:
        raise
    except Exception as error:
        raise AgentFailed(f"{NAME} could not go on: {error}") from error

"""Agents that wait for the next prompt of their conversation, lest each prompt starts them again.

An agent waits only after a turn that it has ended itself, be it that its provider failed. One that
failed in the middle or was stopped is closed at once, and so is the one that has waited longest
when there are too many.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import NamedTuple

import structlog

from agor.agents.base import Agent
from agor.agents.registry import find_agent
from agor.protocol.methods import ExecutePromptParams

log = structlog.get_logger("agor.executor")

#: Agents that wait at once. The daemon has one session per executor; others may have many.
MOST_WAITING = 8
#: Seconds after which nobody waits any longer for an agent's end, which bounds itself.
_PATIENCE = 5.0


class _Waiting(NamedTuple):
    agent: Agent
    #: How the agent itself calls the conversation that it is in.
    agent_session_id: str | None


class Conversations:
    """The agents of this executor that are between two prompts."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[str, str], _Waiting] = OrderedDict()

    async def take(self, params: ExecutePromptParams) -> Agent:
        """Get the agent for a prompt: the one that waits for it, or a new one."""
        waiting = self._waiting.pop(_key(params), None)
        if waiting is not None:
            if params.resume is not None and params.resume == waiting.agent_session_id:
                return waiting.agent
            await self.end(waiting.agent)
        return find_agent(params.agentic_tool)()

    async def keep(
        self, params: ExecutePromptParams, agent: Agent, agent_session_id: str | None
    ) -> None:
        """Let an agent wait for the next prompt of its session."""
        key = _key(params)
        before = self._waiting.pop(key, None)
        self._waiting[key] = _Waiting(agent, agent_session_id)
        if before is not None:
            await self.end(before.agent)
        if len(self._waiting) > MOST_WAITING:
            await self.end(self._waiting.popitem(last=False)[1].agent)

    async def end(self, agent: Agent) -> None:
        """Close an agent, whatever is wrong with it."""
        try:
            async with asyncio.timeout(_PATIENCE):
                await agent.close()
        except Exception:
            # What it left ends with the executor.
            log.exception("agent_not_closed", agent=agent.name)

    async def close(self) -> None:
        """Close all that wait."""
        agents = [waiting.agent for waiting in self._waiting.values()]
        self._waiting.clear()
        await asyncio.gather(*(self.end(agent) for agent in agents))


def _key(params: ExecutePromptParams) -> tuple[str, str]:
    return params.session_id, params.agentic_tool

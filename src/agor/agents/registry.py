"""Which agents there are, by the name a prompt asks for."""

from __future__ import annotations

from collections.abc import Callable

from agor.agents.base import Agent
from agor.agents.codex.agent import CodexAgent
from agor.agents.scripted import ScriptedAgent
from agor.errors import InvalidParams
from agor.protocol.methods import AgentInfo
from agor.protocol.validation import quoted

AGENTS: dict[str, type[Agent]] = {agent.name: agent for agent in (CodexAgent, ScriptedAgent)}


def find_agent(name: str) -> Callable[[], Agent]:
    """Look up how a conversation with an agent is begun, or say which agents there are."""
    try:
        return AGENTS[name]
    except KeyError:
        known = ", ".join(sorted(AGENTS))
        raise InvalidParams(
            f"params.agentic_tool: there is no agent {quoted(name)}", hint=f"Known agents: {known}."
        ) from None


def describe_agents() -> list[AgentInfo]:
    """Describe them all."""
    return [agent.describe() for agent in AGENTS.values()]

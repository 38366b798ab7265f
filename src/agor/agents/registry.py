"""Which agents there are, by the name a prompt asks for."""

from __future__ import annotations

from agor.agents.acp.command import PREFIX, command_agent
from agor.agents.base import Agent
from agor.agents.claude.agent import ClaudeAgent
from agor.agents.codex.agent import CodexAgent
from agor.agents.gemini.agent import GeminiAgent
from agor.agents.opencode.agent import OpenCodeAgent
from agor.agents.scripted import ScriptedAgent
from agor.errors import InvalidParams
from agor.protocol.methods import AgentInfo
from agor.protocol.validation import quoted

AGENTS: dict[str, type[Agent]] = {
    agent.name: agent
    for agent in (
        ClaudeAgent,
        CodexAgent,
        GeminiAgent,
        OpenCodeAgent,
        ScriptedAgent,
    )
}


def find_agent(name: str) -> type[Agent]:
    """Look up how a conversation with an agent is begun, or say which agents there are."""
    if name.startswith(PREFIX):
        return command_agent(name)
    try:
        return AGENTS[name]
    except KeyError:
        known = ", ".join((*sorted(AGENTS), f"{PREFIX}<command>"))
        raise InvalidParams(
            f"params.agentic_tool: there is no agent {quoted(name)}", hint=f"Known agents: {known}."
        ) from None


def describe_agents() -> list[AgentInfo]:
    """Describe them all."""
    return [agent.describe() for agent in AGENTS.values()]


def import_ahead() -> None:
    """Import what any of them would import for its first turn."""
    for agent in AGENTS.values():
        agent.import_ahead()

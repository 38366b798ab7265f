"""Claude Code driven by its own SDK, as its documentation shows: one client that stays connected.

Usage: python -m bench.agents.claude_directly WORKSPACE BASE_URL KEY MODEL
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    ResultMessage,
    StreamEvent,
    ToolPermissionContext,
)

from bench.agents.driving import Given, drive
from bench.results import BenchError


async def _allow(*_: str | dict[str, Any] | ToolPermissionContext) -> PermissionResultAllow:
    return PermissionResultAllow()


class Claude:
    """A conversation, begun with its first prompt."""

    def __init__(self, given: Given) -> None:
        self._client = ClaudeSDKClient(
            ClaudeAgentOptions(
                cwd=Path(given.workspace),
                model=given.model,
                env={
                    "ANTHROPIC_BASE_URL": given.base_url,
                    "ANTHROPIC_API_KEY": given.key,
                    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                },
                setting_sources=[],
                can_use_tool=_allow,
                include_partial_messages=True,
            )
        )
        self._connected = False

    async def prompt(self, text: str, on_text: Callable[[], None]) -> None:
        """Put a prompt and follow it to its result."""
        if not self._connected:
            await self._client.connect()
            self._connected = True
        await self._client.query(text)
        async for message in self._client.receive_response():
            if isinstance(message, StreamEvent):
                if message.event.get("delta", {}).get("type") == "text_delta":
                    on_text()
            elif isinstance(message, ResultMessage) and message.is_error:
                raise BenchError(f"Claude Code failed: {message.result}")

    async def close(self) -> None:
        """End the program."""
        await self._client.disconnect()


if __name__ == "__main__":
    drive(Claude)

"""The SDK's way to the program: a process of ours, with an environment and an end that are certain.

The SDK's own transport passes on all of our environment, and may take twenty seconds to close.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from claude_agent_sdk import Transport

from agor.agents.lines import read_lines
from agor.agents.programs import Program


class Connection(Transport):
    """The standard streams of one program: a JSON message a line, both ways."""

    def __init__(self, program: Program) -> None:
        self._program = program

    async def connect(self) -> None:
        """Do nothing: the program is running."""

    async def write(self, data: str) -> None:
        """Send a message; waits while the program does not read."""
        program = self._program
        try:
            if program.stdin.is_closing():
                raise ConnectionResetError
            program.stdin.write(data.encode(errors="replace"))
            await program.stdin.drain()
        except ConnectionError:
            raise await program.ended() from None

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """Give its messages until it ends, and then say how it ended."""
        program = self._program
        async for line in read_lines(program.stdout):
            # It may print other things.
            if line.startswith(b"{"):
                message = _read(line)
                if message.get("type") == "result":
                    _keep_share(message)
                yield message
        raise await program.ended()

    async def close(self) -> None:
        """End the program and all that it started."""
        await self._program.stop()

    def is_ready(self) -> bool:
        """Tell whether it can be written to."""
        return not self._program.exited

    async def end_input(self) -> None:
        """Do nothing: there may be another prompt until the end."""


def _read(line: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError:
        # Half a character, as left by who cuts texts in UTF-16. No event may have one.
        whole = json.dumps(json.loads(line), ensure_ascii=False).encode(errors="replace")
        return msgspec.json.decode(whole, type=dict[str, Any])


def _keep_share(result: dict[str, Any]) -> None:
    """Put what was used since the last result where the SDK has the sum of the whole conversation.

    The sum counts on over a resume, and the SDK drops the members that it does not know.
    """
    share = result.get("model_usage_since_last_result")
    if share is not None:
        result["modelUsage"] = share

"""Our end of an ACP connection: what an agent may ask of us.

Questions go into the same queue as the session's updates, so that they are dealt with in order.
Files and terminals are not offered: an agent here works on the disk itself. One that asks
nevertheless to write what it was just allowed to write has it done; but one is known to do it
itself as well, and is not disturbed.
"""

# ruff: noqa: ARG002 - the parameters are those of the protocol

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from agor.agents.acp.said import Question, Said

if TYPE_CHECKING:
    from acp.schema import PermissionOption, RequestPermissionResponse, ToolCallUpdate


class Client:
    """What the ACP package calls when the agent asks."""

    def __init__(self, said: Said) -> None:
        self._said = said
        #: Files that the agent was allowed to change, in this turn.
        self.writable: set[str] = set()
        #: Whether the agent writes its files itself, and only shows them to us.
        self.shows_writes = False

    async def request_permission(
        self,
        session_id: str,
        tool_call: ToolCallUpdate,
        options: list[PermissionOption],
        **more: Any,
    ) -> RequestPermissionResponse:
        """Hand the question on, and wait for the answer."""
        question = Question(tool_call, options)
        await self._said.put(question)
        return await question.answer

    async def write_text_file(self, session_id: str, path: str, content: str, **more: Any) -> None:
        """Write a file, if that was allowed a moment ago."""
        from acp import RequestError

        if self.shows_writes:
            return
        if path not in self.writable:
            raise RequestError.method_not_found("fs/write_text_file")
        try:
            await asyncio.to_thread(Path(path).write_text, content, encoding="utf-8")
        except (OSError, ValueError) as error:
            raise RequestError.internal_error({"details": str(error)}) from None

    async def read_text_file(self, session_id: str, path: str, **more: Any) -> NoReturn:
        """Refuse: it can read the file itself."""
        _refuse("fs/read_text_file")

    async def create_terminal(self, session_id: str, command: str, **more: Any) -> NoReturn:
        """Refuse: it can start the command itself."""
        _refuse("terminal/create")

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        """Never called: updates go past the ACP package, see `transport`."""


def _refuse(method: str) -> NoReturn:
    from acp import RequestError

    raise RequestError.method_not_found(method)

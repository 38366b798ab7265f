"""Executors that do nothing by themselves: a test acts in their name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from agor.protocol.credentials import NewCredential
from agor.protocol.methods import (
    GET_API_KEY,
    ExecutePromptParams,
    GetApiKeyParams,
    RequestPermissionParams,
)
from tests.integration.daemon.hostile import Act, Hostile
from tests.integration.daemon.in_process import Desk, soon


class Asker:
    """Keeps what executors got, so that a test can ask and report in their name."""

    def __init__(self) -> None:
        self.got: asyncio.Queue[tuple[Hostile, ExecutePromptParams]] = asyncio.Queue()

    def make(self) -> Hostile:
        return Hostile(self._act)

    async def _act(self, executor: Hostile, params: ExecutePromptParams) -> None:
        self.got.put_nowait((executor, params))

    async def next(self) -> tuple[Hostile, ExecutePromptParams]:
        """Wait until an executor gets a task."""
        return await soon(self.got.get())

    async def task_of(self, desk: Desk) -> tuple[Hostile, ExecutePromptParams]:
        """Give a task to the executor of a new session."""
        await desk.prompt(await desk.session(), "x")
        return await self.next()


async def good(executor: Hostile, params: ExecutePromptParams) -> None:
    executor.report(params, 1)
    executor.end(params, 2)


async def nothing(executor: Hostile, params: ExecutePromptParams) -> None:
    """It has its task, and does not do it."""


def acting(*acts: Act) -> Callable[[], Hostile]:
    """Make executors that do this, one after the other; those after them are good."""
    left = list(acts)
    return lambda: Hostile(left.pop(0) if left else good)


async def ask_for_key(executor: Hostile, token: str) -> None:
    params = GetApiKeyParams(session_token=token, credential_key="ANTHROPIC_API_KEY")
    await soon(executor.peer.call(GET_API_KEY, params))


async def keep(
    desk: Desk, name: str = "ANTHROPIC_API_KEY", value: str = "sk-kept-01234567"
) -> None:
    """Keep a credential, so that there is one to ask for."""
    new = NewCredential(value=value)
    await soon(desk.daemon.credentials.put(desk.who, name, new, team=False))


def question(params: ExecutePromptParams, **changes: Any) -> RequestPermissionParams:
    """Ask whether a task may write."""
    members: dict[str, Any] = {
        "session_token": params.session_token,
        "task_id": params.task_id,
        "request_id": "r",
        "tool_name": "Write",
        "tool_input": {},
    } | changes
    return RequestPermissionParams(**members)

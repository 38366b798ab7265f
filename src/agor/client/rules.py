"""The client's part for permission rules."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Literal

from agor.client.calls import Calls
from agor.client.ids import in_path
from agor.protocol.api import Page
from agor.protocol.rules import NewRule, PermissionRule, RuleExport, RulePreview

_PATH = "/permission-rules"


class Rules:
    """Permission rules of whoever asks; admins may look at others'."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def list(
        self, *, status: Literal["live", "all"] = "live", user_id: str | None = None
    ) -> AsyncIterator[PermissionRule]:
        """List rules, the newest first: those that hold now, or all there ever were."""
        query = {"status": status, "user_id": user_id}
        return self._calls.list(_PATH, Page[PermissionRule], query)

    async def get(self, rule_id: str) -> PermissionRule:
        """Show a rule, also one that holds no more."""
        return await self._calls.ask("GET", f"{_PATH}/{in_path(rule_id)}", PermissionRule)

    async def make(self, new: NewRule, *, key: str | None = None) -> PermissionRule:
        """Make a rule. It holds at once, also for what is being asked already."""
        key = uuid.uuid4().hex if key is None else key
        return await self._calls.ask("POST", _PATH, PermissionRule, body=new, key=key)

    async def preview(self, new: NewRule) -> RulePreview:
        """Show which past requests a rule would have decided; saves nothing."""
        key = uuid.uuid4().hex
        return await self._calls.ask("POST", f"{_PATH}/preview", RulePreview, body=new, key=key)

    async def revoke(self, rule_id: str) -> None:
        """Have a rule decide nothing any more, at once."""
        await self._calls.ask("DELETE", f"{_PATH}/{in_path(rule_id)}", None)

    async def export(self, *, user_id: str | None = None) -> RuleExport:
        """Give all rules that hold, each as `make` takes it."""
        return await self._calls.ask(
            "GET", f"{_PATH}/export", RuleExport, query={"user_id": user_id}
        )

"""Permission rules, as the daemon's HTTP interface takes and gives them. Pure data."""

from __future__ import annotations

from typing import Any

from agor.protocol.api import (
    FolderPath,
    Given,
    InputPatterns,
    Permission,
    Reason,
    RuleEffect,
    RuleScope,
    Sent,
    Time,
    ToolPattern,
)

__all__ = ["NewRule", "PermissionRule", "RuleEffect", "RuleExport", "RulePreview", "RuleScope"]


class NewRule(Sent):
    """An answer in advance. One of `input` and `exact_input` is there; `input: {}` is any input."""

    effect: RuleEffect
    tool: ToolPattern
    scope: RuleScope
    #: The session's id or the workspace's path; not needed for a person, who is the maker.
    scope_id: FolderPath | None = None
    input: InputPatterns | None = None
    exact_input: dict[str, Any] | None = None
    expires_at: Time | None = None
    reason: Reason | None = None


class PermissionRule(Given):
    """A rule as it is kept."""

    rule_id: str
    #: Who made it, and whose sessions it holds for.
    user_id: str
    effect: RuleEffect
    tool: str
    scope: RuleScope
    scope_id: str
    input: dict[str, str] | None
    exact_input: dict[str, Any] | None
    reason: str | None
    #: The request that it was made with, if it was.
    permission_id: str | None
    created_at: int
    expires_at: int | None
    revoked_at: int | None


class RulePreview(Given):
    """What a rule would have decided, had it been there. Nothing of it is saved."""

    #: The latest requests that it would have decided, as they were decided then.
    items: list[Permission]
    #: How many it would have decided, of so many that were looked at, the latest ones.
    matched: int
    looked_at: int
    #: Whether these were all that there are.
    complete: bool


class RuleExport(Given):
    """Rules that hold, each as it can be sent again."""

    exported_at: int
    rules: list[NewRule]

"""Permission rules, as the daemon's HTTP interface takes and gives them. Pure data."""

from __future__ import annotations

from typing import Literal

RuleEffect = Literal["allow", "deny"]
#: What a rule holds for: one session, all sessions of its maker in one workspace, or all of them.
RuleScope = Literal["session", "workspace", "user"]

"""Repositories and worktrees, as the daemon's HTTP interface takes and gives them. Pure data."""

from __future__ import annotations

from typing import Literal

#: `making` and `removing` tell, after a crash, what was under way.
WorktreeStatus = Literal["making", "ready", "removing"]

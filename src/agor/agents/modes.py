"""What each permission mode means to each agent: one table.

Agents are told to ask about everything, in every mode: the daemon answers by the mode, by rules or
by a person, and keeps a record of it. So `acceptEdits` and `bypassPermissions` are nothing to an
agent but answers that come at once. `plan` is different: then the agent itself must know that it is
to change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from agor.protocol.methods import PermissionMode

#: The agent's own word for each mode; none where there is nothing to tell it.
NATIVE: Mapping[str, Mapping[PermissionMode, str | None]] = {
    "claude-code": {
        "default": "default",
        "acceptEdits": "default",
        "plan": "plan",
        "bypassPermissions": "default",
    },
    "codex": {
        "default": "default",
        "acceptEdits": "default",
        "plan": "plan",
        "bypassPermissions": "default",
    },
    "opencode": {
        "default": "build",
        "acceptEdits": "build",
        "plan": "plan",
        "bypassPermissions": "build",
    },
}

#: The words that agents over ACP have for each mode: the first that one knows is chosen. None of
#: them lets it do anything unasked.
ACP_WORDS: Mapping[PermissionMode, tuple[str, ...]] = {
    "default": ("default", "ask", "read-only"),
    "acceptEdits": ("default", "ask", "read-only"),
    "plan": ("plan", "read-only"),
    "bypassPermissions": ("default", "ask", "read-only"),
}

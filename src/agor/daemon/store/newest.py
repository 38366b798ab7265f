"""The largest id of each table whose ids are made by the daemon."""

from __future__ import annotations

from agor.daemon.store.base import Store

_KEYS = {
    "users": "user_id",
    "permission_rules": "rule_id",
    "repos": "repo_id",
    "worktrees": "worktree_id",
    "api_tokens": "token_id",
    "sign_ins": "sign_in_id",
    "credentials": "credential_id",
    "sessions": "session_id",
    "tasks": "task_id",
    "permission_requests": "permission_id",
    "terminals": "terminal_id",
}
#: Reads one entry of each table's index.
_LARGEST = " UNION ALL ".join(
    f"SELECT MAX({key}) FROM {table}"  # noqa: S608 - names of ours
    for table, key in _KEYS.items()
)


async def largest_ids(store: Store) -> list[str]:
    """Return the largest id of each table that has any."""
    return [found for (found,) in await store.read(_LARGEST) if found is not None]

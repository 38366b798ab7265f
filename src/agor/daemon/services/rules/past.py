"""Questions of the past, and what a rule would have said to them."""

from __future__ import annotations

import msgspec

from agor.daemon.services import views
from agor.daemon.services.rules.matching import Question, Rule
from agor.daemon.store import permissions, sessions
from agor.daemon.store.base import Store
from agor.daemon.store.rows import PermissionRow
from agor.daemon.store.shares import Circle
from agor.protocol.api import Permission
from agor.protocol.methods import PermissionMode
from agor.protocol.rules import RulePreview

#: The latest questions that are looked at, their bytes, and how many are read at a time.
_MOST_LOOKED_AT = 1000
_MOST_READ = 64 * 1024 * 1024
_AT_A_TIME = 50
#: Those that are shown, and their bytes.
_MOST_SHOWN = 50
_MOST_BYTES = 1024 * 1024


def question_of(
    row: PermissionRow, user_id: str, workspace: str, mode: PermissionMode = "default"
) -> Question:
    """Make of a stored question what rules are about. The default mode decides nothing."""
    return Question(
        user_id=user_id,
        session_id=row.session_id,
        workspace=workspace,
        tool=row.tool_name,
        input=msgspec.json.decode(row.tool_input),
        mode=mode,
    )


async def preview(store: Store, rule: Rule) -> RulePreview:
    """Look at the latest questions of a rule's maker, the newest first."""
    items: list[Permission] = []
    matched = looked_at = read = shown = 0
    before: tuple[int, str] | None = None
    complete = False
    while looked_at < _MOST_LOOKED_AT and read < _MOST_READ and not complete:
        user_id = rule.row.user_id
        own = Circle(user_id, own=True, shared=False)
        rows = await permissions.page(store, own, None, before, _AT_A_TIME)
        complete = len(rows) < _AT_A_TIME
        if not rows:
            break
        places = await sessions.workspaces(store, sorted({row.session_id for row in rows}))
        for row in rows:
            looked_at += 1
            read += len(row.tool_input)
            question = question_of(row, user_id, places.get(row.session_id, ""))
            if not rule.would_decide(question):
                continue
            matched += 1
            shown += len(row.tool_input)
            if len(items) < _MOST_SHOWN and shown <= _MOST_BYTES:
                items.append(views.permission(row))
        before = (rows[-1].created_at, rows[-1].permission_id)
    return RulePreview(items=items, matched=matched, looked_at=looked_at, complete=complete)

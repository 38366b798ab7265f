"""What Claude may do: its questions, passed on, and what is refused before it is a question.

Claude asks about what changes something, and not about what only reads. A hook sees every call,
so that a prompt which names its tools gets no other. In plan mode Claude itself knows that nothing
is to be changed; if it tries all the same it asks, and is told no without anybody being bothered.
"""

from __future__ import annotations

import asyncio
from typing import Any

from claude_agent_sdk import (
    HookContext,
    HookInput,
    HookJSONOutput,
    PermissionResultAllow,
    PermissionResultDeny,
    ToolPermissionContext,
)

from agor.agents.claude.calls import Call, Calls
from agor.agents.turn import Turn

#: Tools that change something. A plan has none of them.
_CHANGING = frozenset({"Bash", "Edit", "Monitor", "MultiEdit", "NotebookEdit", "Write"})
_PLAN_ONLY = "plan mode: nothing is changed"
#: One tool with two names: what the model calls it, and what Claude Code does.
_OTHER_NAME = {"Agent": "Task", "Task": "Agent"}
#: Finds other tools, and does nothing by itself.
_ALWAYS = frozenset({"ToolSearch"})
_LEAVES_PLAN_MODE = "ExitPlanMode"


class Permissions:
    """Answers for the turn that is under way. Between two turns, questions wait for the next."""

    def __init__(self) -> None:
        self._turn: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self._planning = False
        self.calls = Calls()

    def begin(self, turn: Turn) -> None:
        """Answer for this turn from now on."""
        self.end()
        self.calls.clear()
        self._planning = turn.params.permission_mode == "plan"
        self._turn.set_result(turn)

    def end(self) -> None:
        """Answer nothing until another turn begins."""
        if self._turn.done():
            self._turn = asyncio.get_running_loop().create_future()

    async def before_tool(
        self, given: HookInput, tool_use_id: str | None, _: HookContext
    ) -> HookJSONOutput:
        """See a call before anybody decides on it; refuse it if the prompt has no such tool."""
        assert given["hook_event_name"] == "PreToolUse"
        turn = await asyncio.shield(self._turn)
        name = _name_for(turn, given["tool_name"])
        if not turn.params.tools or name in turn.params.tools or name in _ALWAYS:
            return {}
        use_id = tool_use_id or given["tool_use_id"]
        call = await self._call(turn, use_id, name, given["tool_input"])
        self.calls.deny(use_id)
        refusal = await turn.permit(call.block, name, given["tool_input"], use_id)
        return {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": refusal.reason or "denied",
            }
        }

    async def may_use(
        self, tool_name: str, tool_input: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        """Answer a question of Claude's."""
        turn = await asyncio.shield(self._turn)
        name = _name_for(turn, tool_name)
        use_id = context.tool_use_id or ""
        call = await self._call(turn, use_id, name, tool_input)
        if self._planning and name in _CHANGING:
            self.calls.deny(use_id)
            await call.block.update("denied", reason=_PLAN_ONLY)
            return PermissionResultDeny(message=_PLAN_ONLY)
        decision = await turn.permit(call.block, name, tool_input, context.tool_use_id)
        if not decision.approved:
            self.calls.deny(use_id)
            return PermissionResultDeny(message=decision.reason or "denied")
        if name == _LEAVES_PLAN_MODE:
            # Somebody has read the plan and wants it done; each change is asked about.
            self._planning = False
        return PermissionResultAllow(updated_input=decision.updated_input)

    async def _call(self, turn: Turn, use_id: str, name: str, tool_input: dict[str, Any]) -> Call:
        call = await self.calls.find(use_id)
        if call is None:
            # Nobody told of it, but somebody has to see it.
            block = await turn.start_block(
                "tool_use", tool_use_id=use_id, tool_name=name, tool_input=tool_input
            )
            call = Call(block, name)
            await self.calls.begin(use_id, call)
        return call


def _name_for(turn: Turn, tool_name: str) -> str:
    """Choose among the names of a tool the one that the prompt has."""
    other = _OTHER_NAME.get(tool_name)
    return other if other is not None and other in turn.params.tools else tool_name

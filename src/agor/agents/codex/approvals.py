"""Answers what Codex asks: whether a tool may be used, and questions to the person.

Nothing is answered that is not understood, and nothing is allowed that agor was not asked about.
"""

from __future__ import annotations

import json
from typing import Any

from agor.agents.codex.app_server import AppServer, Json, Message, ServerRefusedError
from agor.agents.codex.blocks import Call
from agor.agents.codex.denials import message_of
from agor.agents.codex.items import tool_input, tool_name
from agor.agents.codex.telling import Telling
from agor.agents.turn import Turn
from agor.errors import AgentFailed
from agor.protocol.events import Log
from agor.protocol.methods import RequestPermissionResult

PLANNING = "plan mode: nothing is changed"
#: Seconds for the server to take a message.
_STEERING = 10.0


class Approvals:
    """What is asked during one turn."""

    def __init__(self, server: AppServer, turn: Turn, telling: Telling) -> None:
        self._server = server
        self._turn = turn
        self._telling = telling
        self._planning = turn.params.permission_mode == "plan"

    async def answer(self, message: Message) -> None:
        """Answer a question of any kind."""
        params = message.params
        match message.method:
            case "item/commandExecution/requestApproval":
                result = await self._command(params)
            case "item/fileChange/requestApproval":
                result = await self._file_change(params)
            case "item/permissions/requestApproval":
                result = await self._permissions(params)
            case "item/tool/requestUserInput":
                result = await self._question(params)
            case "mcpServer/elicitation/request":
                result = await self._mcp(params)
            case method:
                await self._turn.tell(Log("warning", f"codex asked {method}, which agor refuses"))
                self._server.refuse(message, "agor does not answer this")
                return
        self._server.answer(message, result)

    async def _command(self, params: Json) -> Json:
        item = {"type": "commandExecution", "id": params["itemId"], "command": "", "cwd": ""}
        call = await self._telling.call(item, params["threadId"])
        # What is asked is what is to be allowed: it may be a part of the command that was begun.
        told = {name: params[name] for name in ("command", "cwd") if params.get(name)}
        wanted = tool_input({**call.item, **told})
        if params.get("kind", "command") != "command":
            wanted["kind"] = params["kind"]
        for name in ("networkApprovalContext", "additionalPermissions"):
            if params.get(name):
                wanted[name] = params[name]
        # Who plans has a sandbox, and what asks wants to leave it.
        allowed = await self._ask(call, wanted, params, changes=True)
        return {"decision": "accept" if allowed else "decline"}

    async def _file_change(self, params: Json) -> Json:
        item = {"type": "fileChange", "id": params["itemId"], "changes": []}
        call = await self._telling.call(item, params["threadId"])
        wanted = tool_input(call.item)
        if params.get("grantRoot"):
            wanted["grantRoot"] = params["grantRoot"]
        allowed = await self._ask(call, wanted, params, changes=True)
        return {"decision": "accept" if allowed else "decline"}

    async def _permissions(self, params: Json) -> Json:
        wanted = params["permissions"]
        item = {
            "type": "requestPermissions",
            "id": params["itemId"],
            "input": {"permissions": wanted, "cwd": params.get("cwd")},
        }
        call = await self._telling.begin_call(item, params["threadId"])
        allowed = await self._ask(call, item["input"], params, changes=True)
        await call.finish(item | {"status": "completed" if allowed else "declined"})
        return {"permissions": wanted if allowed else {}, "scope": "turn"}

    async def _mcp(self, params: Json) -> Json:
        call = self._mcp_call(params)
        if call is None:
            server = params["serverName"]
            words = f"the MCP server {server} asked for something, which agor does not give"
            await self._turn.tell(Log("warning", words))
        elif await self._ask(call, tool_input(call.item), params):
            return {"action": "accept", "content": {}, "_meta": None}
        return {"action": "decline", "content": None, "_meta": None}

    def _mcp_call(self, params: Json) -> Call | None:
        """Find the call that is meant: the question has no id of it, but all that it is about."""
        meta = params.get("_meta") or {}
        if meta.get("codex_approval_kind") != "mcp_tool_call":
            return None
        for call in self._telling.calls.values():
            item = call.item
            if (
                item["type"] == "mcpToolCall"
                and not call.asked
                and item["server"] == params["serverName"]
                and f'tool "{item["tool"]}"' in params["message"]
                and (item.get("arguments") or {}) == (meta.get("tool_params") or {})
            ):
                return call
        return None

    async def _question(self, params: Json) -> Json:
        """Pass a question of the model on to the person, who answers by changing the input."""
        questions = plain_questions(params["questions"])
        asked = {"questions": questions}
        item = {"type": "requestUserInput", "id": params["itemId"], "input": asked}
        call = await self._telling.begin_call(item, params["threadId"])
        decision = await self._turn.permit(call.use, "requestUserInput", asked, item["id"])
        given = (decision.updated_input or {}).get("answers") if decision.approved else None
        answers = read_answers(questions, given)
        if decision.approved:
            await call.close(answers_text(answers))
        else:
            call.denial = decision.reason or "denied"
            await call.finish(item | {"status": "declined"})
        return {"answers": {name: {"answers": words} for name, words in answers.items()}}

    # ── one call ─────────────────────────────────────────────────────────────────────────────

    async def _ask(
        self, call: Call, wanted: dict[str, Any], params: Json, *, changes: bool = False
    ) -> bool:
        """Ask whether a call may be, and see to it that a no is understood."""
        call.asked = True
        decision = await self._decide(call, wanted, changes=changes)
        if decision.approved:
            return True
        call.denial = decision.reason or "denied"
        if decision.reason:
            await self._tell_model(message_of(call.item, decision.reason), params)
        return False

    async def _decide(
        self, call: Call, wanted: dict[str, Any], *, changes: bool
    ) -> RequestPermissionResult:
        if changes and self._planning:
            return await self._deny(call, PLANNING)
        name, call_id = tool_name(call.item), call.item["id"]
        decision = await self._turn.permit(call.use, name, wanted, call_id)
        changed = decision.updated_input
        if decision.approved and changed is not None and changed != wanted:
            # It can only be run as it is, and so was not allowed.
            instead = json.dumps(changed, ensure_ascii=False)
            return await self._deny(call, f"do this instead: {instead}")
        return decision

    async def _deny(self, call: Call, reason: str) -> RequestPermissionResult:
        await call.use.update("denied", reason=reason)
        return RequestPermissionResult(approved=False, reason=reason)

    async def _tell_model(self, message: Json, params: Json) -> None:
        if params.get("turnId") is None:
            return
        message |= {"threadId": params["threadId"], "expectedTurnId": params["turnId"]}
        try:
            await self._server.call("turn/steer", message, timeout=_STEERING)
        except (ServerRefusedError, AgentFailed) as error:
            # The person has the reason all the same.
            await self._turn.tell(Log("debug", f"codex did not take the reason: {error}"))


def plain_questions(questions: list[Json]) -> list[Json]:
    """Leave out of questions what is not for people."""
    members = ("id", "header", "question", "options")
    return [{name: each.get(name) for name in members} for each in questions]


def read_answers(questions: list[Json], given: Any) -> dict[str, list[str]]:
    """Find the answers to questions, by their ids, headers or the questions themselves."""
    if not isinstance(given, dict):
        return {}
    found: dict[str, list[str]] = {}
    for question in questions:
        for name in ("id", "question", "header"):
            if (answer := given.get(question[name])) is not None:
                found[question["id"]] = [
                    str(word) for word in (answer if isinstance(answer, list) else [answer])
                ]
                break
    return found


def answers_text(answers: dict[str, list[str]]) -> str:
    """Write answers for people."""
    return "\n".join(", ".join(words) for words in answers.values())

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
        item = {
            "type": "commandExecution",
            "id": params["itemId"],
            "command": params.get("command") or "",
            "cwd": params.get("cwd") or self._turn.params.cwd,
        }
        more = {
            name: params[name]
            for name in ("networkApprovalContext", "additionalPermissions")
            if params.get(name)
        }
        allowed = await self._ask(await self._telling.call(item, params["threadId"]), params, more)
        return {"decision": "accept" if allowed else "decline"}

    async def _file_change(self, params: Json) -> Json:
        item = {"type": "fileChange", "id": params["itemId"], "changes": []}
        more = {"grantRoot": params["grantRoot"]} if params.get("grantRoot") else {}
        allowed = await self._ask(
            await self._telling.call(item, params["threadId"]),
            params,
            more,
            forbidden=PLANNING if self._planning else None,
        )
        return {"decision": "accept" if allowed else "decline"}

    async def _permissions(self, params: Json) -> Json:
        wanted = params["permissions"]
        item = {
            "type": "requestPermissions",
            "id": params["itemId"],
            "input": {"permissions": wanted, "cwd": params.get("cwd")},
        }
        call = await self._telling.begin_call(item, params["threadId"])
        allowed = await self._ask(call, params, {}, forbidden=PLANNING if self._planning else None)
        await call.finish(item | {"status": "completed" if allowed else "declined"})
        return {"permissions": wanted if allowed else {}, "scope": "turn"}

    async def _mcp(self, params: Json) -> Json:
        meta = params.get("_meta") or {}
        declined = {"action": "decline", "content": None, "_meta": None}
        call = self._mcp_call(params["serverName"], meta.get("tool_params"))
        if meta.get("codex_approval_kind") != "mcp_tool_call" or call is None:
            words = (
                f"the MCP server {params['serverName']} asked for input, which agor does not give"
            )
            await self._turn.tell(Log("warning", words))
            return declined
        if await self._ask(call, params, {}):
            return {"action": "accept", "content": {}, "_meta": None}
        return declined

    def _mcp_call(self, server: str, arguments: Any) -> Call | None:
        """Find the call that is meant; the question does not name it."""
        for call in self._telling.calls.values():
            item = call.item
            meant = item["type"] == "mcpToolCall" and item["server"] == server and not call.asked
            if meant and (arguments is None or item.get("arguments") == arguments):
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
        self, call: Call, params: Json, more: Json, forbidden: str | None = None
    ) -> bool:
        call.asked = True
        item = call.item
        if forbidden is not None:
            await call.use.update("denied", reason=forbidden)
            decision = RequestPermissionResult(approved=False, reason=forbidden)
        else:
            name, wanted = tool_name(item), tool_input(item) | more
            decision = await self._turn.permit(call.use, name, wanted, item["id"])
            changed = decision.updated_input
            if decision.approved and changed is not None and changed != wanted:
                # It can only be run as it is, and so was not allowed.
                reason = f"do this instead: {json.dumps(changed, ensure_ascii=False)}"
                await call.use.update("denied", reason=reason)
                decision = RequestPermissionResult(approved=False, reason=reason)
        if decision.approved:
            return True
        call.denial = decision.reason or "denied"
        if decision.reason:
            await self._tell_model(message_of(item, decision.reason), params)
        return False

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

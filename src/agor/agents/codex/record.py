"""Reads Codex's record of one conversation, or of one sub-agent, as blocks with their places. Pure.

The record has two kinds of lines that matter: what the model said (`response_item`), and the items
that came of it (`event_msg`), which are those that are told live. Items are kept when they are
over, with the moments at which they began and ended; blocks are put in the order of those.

A command that was denied has no item. It is made from the model's call or, if a script of the model
made that, from the message with the reason. One that still ran when all was ended has none either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Raw

from agor.agents.codex import items
from agor.agents.codex.approvals import answers_text, plain_questions
from agor.agents.codex.denials import Denial, denied_call, read_denial
from agor.agents.codex.items import Item
from agor.agents.codex.telling import SUMMED_UP
from agor.protocol.transcripts import TranscriptBlock

_REJECTED = "rejected by user"
_RUNNING = re.compile(r"Process running with session ID \d+\n.*?Output:\n", re.DOTALL)


class Place(msgspec.Struct, frozen=True, order=True):
    """Where something stands in a turn: a moment in milliseconds, and then the line."""

    moment: int
    line: int


class Placed(msgspec.Struct, frozen=True):
    """A block in its place. The turn is that of the conversation, for sub-agents, too."""

    turn: str
    place: Place
    block: TranscriptBlock


class Spawned(msgspec.Struct):
    """A sub-agent: where it began, and where it ended if it did."""

    item: Item
    turn: str
    began: Place
    ended: Place | None = None


class _Call(msgspec.Struct, frozen=True):
    """What the model wanted to be done."""

    turn: str
    place: Place
    name: str
    given: Mapping[str, Any]
    cwd: str


class Record:
    """The lines of a record, sorted out."""

    def __init__(self, lines: Iterable[Raw], parent: str | None = None) -> None:
        #: The call that this sub-agent began with; none for the conversation itself.
        self.parent = parent
        self.placed: list[Placed] = []
        #: The sub-agents that it began, by their own conversations.
        self.agents: dict[str, Spawned] = {}
        self._turn = ""
        self._cwd = ""
        #: The turn of the whole conversation that a turn belongs to.
        self._roots: dict[str, str] = {}
        self._calls: dict[str, _Call] = {}
        self._outputs: dict[str, tuple[Place, str]] = {}
        self._denials: dict[str, tuple[str, Place, Denial]] = {}
        self._items: list[tuple[int, Mapping[str, Any], Item]] = []
        for number, line in enumerate(lines):
            self._read(number, msgspec.json.decode(line))
        for number, payload, item in self._items:
            self._place_item(number, payload, item)
        self._place_calls()

    # ── reading ──────────────────────────────────────────────────────────────────────────────

    def _read(self, number: int, line: Mapping[str, Any]) -> None:
        payload = line.get("payload") or {}
        match line.get("type"), payload.get("type"):
            case "turn_context", _:
                self._cwd = payload.get("cwd") or self._cwd
            case "event_msg", "task_started":
                self._turn = payload["turn_id"]
                self._roots[self._turn] = payload.get("root_turn_id") or self._turn
            case "event_msg", "item_completed":
                self._read_item(number, payload)
            case "response_item", "function_call":
                given = msgspec.json.decode(payload.get("arguments") or "{}")
                if isinstance(given, dict):
                    place = Place(_moment(line), number)
                    call = _Call(self._turn, place, payload["name"], given, self._cwd)
                    self._calls[payload["call_id"]] = call
            case "response_item", "custom_tool_call":
                place = Place(_moment(line), number)
                call = _Call(self._turn, place, payload["name"], {}, self._cwd)
                self._calls[payload["call_id"]] = call
            case "response_item", "function_call_output":
                text = payload["output"] if isinstance(payload.get("output"), str) else ""
                self._outputs[payload["call_id"]] = (Place(_moment(line), number), text)

    def _read_item(self, number: int, payload: Mapping[str, Any]) -> None:
        kept = payload["item"]
        if kept["type"] != "UserMessage":
            if (item := items.from_record(kept)) is not None:
                self._items.append((number, payload, item))
            return
        text = "".join(part.get("text", "") for part in kept["content"])
        place = Place(payload["started_at_ms"], number)
        denied = denied_call(kept.get("client_id") or "")
        if denied is not None:
            self._denials[denied] = (payload["turn_id"], place, read_denial(text))
        elif self.parent is None:
            self._place(payload["turn_id"], place, TranscriptBlock(kind="user_message", text=text))

    # ── placing ──────────────────────────────────────────────────────────────────────────────

    def _place(self, turn: str, place: Place, block: TranscriptBlock) -> None:
        block = msgspec.structs.replace(block, parent_tool_use_id=self.parent)
        self.placed.append(Placed(self._roots.get(turn, turn), place, block))

    def _place_item(self, number: int, payload: Mapping[str, Any], item: Item) -> None:
        turn, began = payload["turn_id"], Place(payload["started_at_ms"], number)
        ended = Place(payload["completed_at_ms"], number)
        match item["type"]:
            case "agentMessage" | "plan" | "reasoning":
                if text := items.text_of(item):
                    kind = items.TEXTS[item["type"]]
                    self._place(turn, began, TranscriptBlock(kind=kind, text=text))
            case "contextCompaction":
                self._place(turn, ended, TranscriptBlock(kind="system", text=SUMMED_UP))
            case "subAgentActivity":
                self._follow(turn, began, item)
            case _:
                if call := self._calls.pop(item["id"], None):
                    # Calls that begin at the same moment begin in the order of the model.
                    began = Place(began.moment, call.place.line)
                self._place_call(item, turn, began, ended)

    def _place_call(self, item: Item, turn: str, began: Place, ended: Place) -> None:
        failed = items.is_failed(item)
        text = self._reason(item["id"]) if items.is_declined(item) else items.result_text(item)
        self._place(turn, began, use_of(item, failed=failed))
        self._place(turn, ended, result_of(item["id"], text, failed=failed))

    def _follow(self, turn: str, place: Place, item: Item) -> None:
        agent = item["agentThreadId"]
        if item["kind"] == "started" and agent not in self.agents:
            self.agents[agent] = Spawned(item, self._roots.get(turn, turn), place)
        elif item["kind"] in ("completed", "interrupted"):
            spawned = self.agents.get(agent)
            if (
                spawned is not None
                and spawned.ended is None
                and self._roots.get(turn) == spawned.turn
            ):
                spawned.ended = place

    def _place_calls(self) -> None:
        """Place the calls that have no item, if they were told live."""
        for call_id, call in self._calls.items():
            ended, output = self._outputs.get(call_id, (call.place, ""))
            if call.name == "request_user_input" and output.startswith("{"):
                questions = {"questions": plain_questions(call.given.get("questions", []))}
                item = {"type": "requestUserInput", "id": call_id, "input": questions}
                self._place(call.turn, call.place, use_of(item, failed=False))
                self._place(call.turn, ended, result_of(call_id, _answers(output), failed=False))
            elif call.name == "exec_command" and _REJECTED in output:
                self._place_call(_command(call_id, call, "declined"), call.turn, call.place, ended)
            elif call.name == "exec_command" and (running := _RUNNING.search(output)):
                item = _command(call_id, call, "completed")
                item |= {"aggregatedOutput": output[running.end() :]}
                self._place_call(item, call.turn, call.place, ended)
        known = {placed.block.tool_use_id for placed in self.placed}
        for call_id, (turn, place, denial) in self._denials.items():
            if denial.command is not None and call_id not in known:
                call = _Call(turn, place, "", {"cmd": denial.command}, denial.cwd or "")
                self._place_call(_command(call_id, call, "declined"), turn, place, place)

    def _reason(self, call_id: str) -> str:
        return self._denials[call_id][2].reason if call_id in self._denials else "denied"


def use_of(item: Item, *, failed: bool) -> TranscriptBlock:
    """Make the block of a tool's use."""
    return TranscriptBlock(
        kind="tool_use",
        tool_use_id=item["id"],
        tool_name=items.tool_name(item),
        tool_input=items.tool_input(item),
        is_error=failed,
    )


def result_of(call_id: str, text: str, *, failed: bool) -> TranscriptBlock:
    """Make the block of its result."""
    return TranscriptBlock(kind="tool_result", tool_use_id=call_id, text=text, is_error=failed)


def _command(call_id: str, call: _Call, status: str) -> dict[str, Any]:
    return {
        "type": "commandExecution",
        "id": call_id,
        "command": call.given.get("cmd", ""),
        "cwd": call.given.get("workdir") or call.cwd,
        "status": status,
    }


def _answers(output: str) -> str:
    answers = msgspec.json.decode(output).get("answers", {})
    return answers_text({name: answer.get("answers", []) for name, answer in answers.items()})


def _moment(line: Mapping[str, Any]) -> int:
    return round(datetime.fromisoformat(line["timestamp"]).timestamp() * 1000)

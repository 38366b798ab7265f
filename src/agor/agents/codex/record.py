"""Reads Codex's record of a conversation as the blocks that were told live. Pure.

The record has two kinds of lines that matter: what the model said (`response_item`), and the items
that came of it (`event_msg`), which are those that are told live. Items are kept when they are
over, with the moments at which they began and ended; blocks are put in the order of those.

A command that was denied has no item; it is made from the model's call. So is one that still ran
when everything was ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Raw

from agor.agents.codex import items
from agor.agents.codex.approvals import DENIED, DENIED_ID, answers_text
from agor.agents.codex.items import Item
from agor.protocol.transcripts import TranscriptBlock

_REJECTED = "rejected by user"
_RUNNING = re.compile(r"Process running with session ID \d+\n.*?Output:\n", re.DOTALL)


class _Placed(msgspec.Struct, frozen=True):
    """A block with its place: a moment in milliseconds, and a line for those of the same moment."""

    moment: int
    line: int
    block: TranscriptBlock


class Record:
    """The lines of a record, sorted out."""

    def __init__(self, lines: Iterable[Raw]) -> None:
        #: The blocks of each turn, in the order of the turns.
        self._turns: dict[str, list[_Placed]] = {}
        self._turn = ""
        self._cwd = ""
        self._calls: dict[str, tuple[int, int, str, Mapping[str, Any]]] = {}
        self._outputs: dict[str, tuple[int, int, str]] = {}
        self._reasons: dict[str, str] = {}
        self._items: list[tuple[int, Mapping[str, Any], Item]] = []
        for number, line in enumerate(lines):
            self._read(number, msgspec.json.decode(line))
        self._place_items()
        self._place_calls()

    def blocks(self) -> list[TranscriptBlock]:
        """Give the blocks in order."""
        return [
            placed.block
            for turn in self._turns.values()
            for placed in sorted(turn, key=lambda placed: (placed.moment, placed.line))
        ]

    # ── reading ──────────────────────────────────────────────────────────────────────────────

    def _read(self, number: int, line: Mapping[str, Any]) -> None:
        payload = line.get("payload") or {}
        match line.get("type"), payload.get("type"):
            case "turn_context", _:
                self._cwd = payload.get("cwd") or self._cwd
            case "event_msg", "task_started":
                self._turn = payload.get("turn_id") or self._turn
                self._turns.setdefault(self._turn, [])
            case "event_msg", "item_completed":
                self._read_item(number, payload)
            case "response_item", "function_call" | "custom_tool_call":
                call = {**payload, "cwd": self._cwd}
                self._calls[payload["call_id"]] = (number, _moment(line), self._turn, call)
            case "response_item", "function_call_output" | "custom_tool_call_output":
                output = payload.get("output")
                text = output if isinstance(output, str) else ""
                self._outputs[payload["call_id"]] = (number, _moment(line), text)

    def _read_item(self, number: int, payload: Mapping[str, Any]) -> None:
        kept = payload["item"]
        if kept["type"] != "UserMessage":
            if (item := items.from_record(kept)) is not None:
                self._items.append((number, payload, item))
            return
        text = "".join(part.get("text", "") for part in kept["content"])
        sender = kept.get("client_id") or ""
        if sender.startswith(DENIED_ID):
            self._reasons[sender.removeprefix(DENIED_ID)] = text.removeprefix(DENIED)
        else:
            block = TranscriptBlock(kind="user_message", text=text)
            self._place(payload["turn_id"], payload["started_at_ms"], number, block)

    # ── placing ──────────────────────────────────────────────────────────────────────────────

    def _place(self, turn: str, moment: int, line: int, block: TranscriptBlock) -> None:
        self._turns.setdefault(turn, []).append(_Placed(moment, line, block))

    def _place_items(self) -> None:
        for number, payload, item in self._items:
            turn, began = payload["turn_id"], payload["started_at_ms"]
            if item["type"] in items.TEXTS:
                if text := items.text_of(item):
                    kind = items.TEXTS[item["type"]]
                    self._place(turn, began, number, TranscriptBlock(kind=kind, text=text))
                continue
            failed = items.is_failed(item)
            call = self._calls.pop(item["id"], None)
            self._place(turn, began, call[0] if call else number, _use(item, failed))
            denied = items.is_declined(item)
            text = self._reasons.get(item["id"], "denied") if denied else items.result_text(item)
            result = _result(item["id"], text, failed)
            self._place(turn, payload["completed_at_ms"], number, result)

    def _place_calls(self) -> None:
        """Place the calls that have no item, if they were told live."""
        for call_id, (number, moment, turn, call) in self._calls.items():
            line, ended, output = self._outputs.get(call_id, (number, moment, ""))
            if call["name"] == "request_user_input" and output.startswith("{"):
                use, text = _question(call), _answers(output)
            elif call["name"] != "exec_command":
                continue
            elif _REJECTED in output:
                use, text = _command(call, denied=True), self._reasons.get(call_id, "denied")
            elif running := _RUNNING.search(output):
                use, text = _command(call, denied=False), output[running.end() :]
            else:
                continue
            self._place(turn, moment, number, use)
            self._place(turn, ended, line, _result(call_id, text, use.is_error))


def _moment(line: Mapping[str, Any]) -> int:
    return round(datetime.fromisoformat(line["timestamp"]).timestamp() * 1000)


def _use(item: Item, failed: bool) -> TranscriptBlock:
    return TranscriptBlock(
        kind="tool_use",
        tool_use_id=item["id"],
        tool_name=items.tool_name(item),
        tool_input=items.tool_input(item),
        is_error=failed,
    )


def _result(call_id: str, text: str, failed: bool) -> TranscriptBlock:
    return TranscriptBlock(kind="tool_result", tool_use_id=call_id, text=text, is_error=failed)


def _command(call: Mapping[str, Any], *, denied: bool) -> TranscriptBlock:
    given = msgspec.json.decode(call["arguments"])
    item = {
        "type": "commandExecution",
        "id": call["call_id"],
        "command": given.get("cmd", ""),
        "cwd": given.get("workdir") or call["cwd"],
    }
    return _use(item, denied)


def _question(call: Mapping[str, Any]) -> TranscriptBlock:
    given = msgspec.json.decode(call["arguments"]).get("questions", [])
    members = ("id", "header", "question", "options")
    return TranscriptBlock(
        kind="tool_use",
        tool_use_id=call["call_id"],
        tool_name="requestUserInput",
        tool_input={"questions": [{name: each.get(name) for name in members} for each in given]},
    )


def _answers(output: str) -> str:
    answers = msgspec.json.decode(output).get("answers", {})
    return answers_text({name: answer.get("answers", []) for name, answer in answers.items()})

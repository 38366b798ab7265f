"""Questions of the model's own, which are no permission requests: a person answers in words.

Agents have a tool for it. Its input has the questions, and the answers go back as a changed input.
"""

from __future__ import annotations

from typing import Any

from agor.cli.keyboard import Keyboard
from agor.cli.printable import printable
from agor.protocol.api import Decision, Permission

TOOLS = ("AskUserQuestion", "requestUserInput")


def questions_of(asked: Permission) -> list[dict[str, Any]]:
    """Give the questions that a request consists of; none if it is about anything else."""
    given = asked.tool_input.get("questions") if asked.tool_name in TOOLS else None
    found = given if isinstance(given, list) else []
    usable = all(isinstance(each, dict) and isinstance(each.get("question"), str) for each in found)
    return found if usable else []


async def answer(keyboard: Keyboard, asked: Permission) -> Decision | None:
    """Ask them one by one; None if the person leaves them to others."""
    answers = {}
    for question in questions_of(asked):
        options = _options(question)
        keyboard.console.print()
        _say(keyboard, question["question"], "bold yellow")
        for number, (label, more) in enumerate(options, 1):
            _say(keyboard, f"  {number}  {label}" + (f": {more}" if more else ""))
        several = bool(question.get("multiSelect")) and bool(options)
        hint = "numbers, or your own words" if several else "a number, or your own words"
        typed: str | None = ""
        while not typed:
            typed = await keyboard.ask(f"({hint if options else 'your answer'}) ")
            if typed is None:
                return None
        answers[question["question"]] = _meant(typed, [label for label, _ in options], several)
    return Decision(approved=True, updated_input=asked.tool_input | {"answers": answers})


def _options(question: dict[str, Any]) -> list[tuple[str, str]]:
    given = question.get("options")
    return [
        (str(each.get("label", "")), str(each.get("description") or ""))
        if isinstance(each, dict)
        else (str(each), "")
        for each in (given if isinstance(given, list) else [])
    ]


def _meant(typed: str, labels: list[str], several: bool) -> str:
    """Take numbers for what they stand for, and everything else as it is."""
    words = typed.replace(",", " ").split() if several else [typed]
    if all(word.isdecimal() and 1 <= int(word) <= len(labels) for word in words):
        return ", ".join(labels[int(word) - 1] for word in words)
    return typed


def _say(keyboard: Keyboard, words: str, style: str = "") -> None:
    keyboard.console.print(printable(words), style=style, markup=False, highlight=False)

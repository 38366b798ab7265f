"""Asks the person at the terminal whether a tool may run: once, in the session, always, or not.

Before "always" is saved it is shown which past requests that rule would have decided.
"""

from __future__ import annotations

import sys

from agor.cli.diffs import DIFF_LINES, diff_lines
from agor.cli.keyboard import Keyboard
from agor.cli.printable import printable
from agor.cli.questions import answer, questions_of
from agor.cli.rule_view import print_preview
from agor.cli.tool_calls import changes_of, details, subject_of
from agor.client import Client
from agor.errors import AgorError
from agor.protocol.api import Decision, DecisionRule, Permission, Session
from agor.protocol.rules import NewRule

#: Lines of one request that are shown; nobody reads more before they answer.
_MOST_LINES = 60
_LONGEST_PATTERN = 1000
_CHOICES = "[o]nce  [s]ession  [a]lways  [n]o: "
_HELP = (
    "o  this time only",
    "s  also when it asks for the same command or file again in this session",
    "a  make a rule of it, after a look at what that would have allowed so far",
    "n  no; you may tell the agent why",
    "Ctrl-D leaves the question to somebody else, Ctrl-C stops the task.",
)


class Approval:
    """One question, until it is answered."""

    def __init__(
        self, keyboard: Keyboard, client: Client, session: Session, asked: Permission
    ) -> None:
        self._keyboard = keyboard
        self._client = client
        self._session = session
        self._asked = asked

    async def ask(self) -> Decision | None:
        """Ask until there is an answer; None if the person leaves it to others."""
        if questions_of(self._asked):
            return await answer(self._keyboard, self._asked)
        self._describe()
        while True:
            typed = await self._keyboard.ask(_CHOICES)
            if typed is None:
                return None
            match typed.lower():
                case "o" | "once" | "y" | "yes":
                    return Decision(approved=True)
                case "s" | "session":
                    return Decision(approved=True, scope="session", rule=self._same())
                case "a" | "always":
                    decision = await self._always()
                    if decision is not None:
                        return decision
                case "n" | "no":
                    return await self._refusal()
                case _:
                    for line in _HELP:
                        self._say(f"  {line}", "dim")

    def _describe(self) -> None:
        asked = self._asked
        self._keyboard.console.print()
        self._say(f"May the agent use {asked.tool_name}?", "bold yellow")
        lines = list(details(asked.tool_input))
        for line in lines[:_MOST_LINES]:
            self._say(f"  {line}", "")
        changed = len(diff_lines(changes_of(asked.tool_input), sys.maxsize))
        if len(lines) > _MOST_LINES or changed > DIFF_LINES:
            self._say(f"  There is more: agor permission show {asked.permission_id}", "yellow")

    async def _refusal(self) -> Decision | None:
        reason = await self._keyboard.ask("Why not? (for the agent; Enter: no reason) ")
        return None if reason is None else Decision(approved=False, reason=reason or None)

    def _same(self) -> DecisionRule | None:
        """For the same thing again: what a call is about, not how it is put this time."""
        member = subject_of(self._asked.tool_name, self._asked.tool_input)
        value = None if member is None else self._asked.tool_input[member]
        if member is None or not isinstance(value, str) or not _fits(value):
            return None
        return DecisionRule(input={member: _literally(value)})

    async def _always(self) -> Decision | None:
        """Make a rule together with the person; None if they think better of it."""
        rule = self._same()
        if rule is not None and rule.input:
            ((member, pattern),) = rule.input.items()
            self._say(
                f"For which {member}? A * stands for anything; Enter: exactly {pattern}", "dim"
            )
            typed = await self._keyboard.ask("Pattern: ")
            if typed is None:
                return None
            rule = DecisionRule(input={member: typed or pattern})
        place = await self._keyboard.ask(
            f"Where? [w]orkspace {self._session.workspace}  [e]verywhere: "
        )
        if place is None or place.lower() not in ("w", "workspace", "e", "everywhere"):
            return None
        everywhere = place.lower().startswith("e")
        try:
            found = await self._client.rules.preview(self._new_rule(rule, everywhere=everywhere))
        except AgorError as error:
            self._say(error.message, "red")
            self._say(error.hint or "", "dim")
            return None
        print_preview(found, self._keyboard.console)
        sure = await self._keyboard.ask("Save it, and allow this? [y/N] ")
        if sure is None or sure.lower() not in ("y", "yes"):
            return None
        return Decision(approved=True, scope="user" if everywhere else "workspace", rule=rule)

    def _new_rule(self, rule: DecisionRule | None, *, everywhere: bool) -> NewRule:
        return NewRule(
            effect="allow",
            tool=_literally(self._asked.tool_name),
            scope="user" if everywhere else "workspace",
            scope_id=None if everywhere else self._session.workspace,
            input=None if rule is None else rule.input,
            exact_input=self._asked.tool_input if rule is None else None,
        )

    def _say(self, words: str, style: str = "bold") -> None:
        self._keyboard.console.print(printable(words), style=style, markup=False, highlight=False)


def _literally(text: str) -> str:
    """Write a pattern that fits this text and nothing else."""
    return text.replace("\\", "\\\\").replace("*", "\\*")


def _fits(text: str) -> bool:
    """Tell whether a pattern can hold it."""
    return "\x00" not in text and len(_literally(text)) <= _LONGEST_PATTERN

"""How permission requests are answered while a session is watched: by a person, or for want of one.

Without a terminal nothing waits for an answer that nobody can give: a request is denied, and it is
said how to allow it in advance. If told so, requests are left to people elsewhere.
"""

from __future__ import annotations

import asyncio
import shlex
from typing import Protocol

from agor.cli.approval import Approval
from agor.cli.keyboard import Keyboard
from agor.cli.questions import questions_of
from agor.cli.showing import ForPeople, Showing
from agor.cli.tool_calls import brief, subject_of
from agor.client import Client
from agor.errors import AgorError, Conflict, Forbidden
from agor.protocol.api import Decision, Permission, Session

_ELSEWHERE = {
    "approved": "allowed elsewhere",
    "denied": "denied elsewhere",
    "timed_out": "denied, as nobody answered in time",
}
_NOBODY = "nobody is there to ask: the command has no terminal"


class Answering(Protocol):
    """Whoever answers."""

    #: Whether something was denied because nobody was there to ask.
    missed: bool

    async def answer(self, asked: Permission) -> bool:
        """See to an answer; False if the person wants to leave instead."""

    def withdraw(self) -> None:
        """Ask no more: there is an answer already, or nobody wants one."""

    def note(self, answered: Permission) -> None:
        """Hear of an answer, whoever gave it."""


class AtTheTerminal:
    """Asks the person who watches."""

    def __init__(
        self, keyboard: Keyboard, client: Client, session: Session, showing: ForPeople
    ) -> None:
        self.missed = False
        self._keyboard = keyboard
        self._client = client
        self._session = session
        self._showing = showing
        self._ours: set[str] = set()
        self._asking: asyncio.Task[Decision | None] | None = None

    async def answer(self, asked: Permission) -> bool:
        """Ask, and tell the daemon."""
        with self._showing.aside():
            self._showing.changes(asked)
            approval = Approval(self._keyboard, self._client, self._session, asked)
            while True:
                self._asking = asyncio.create_task(approval.ask())
                await asyncio.wait({self._asking})
                if self._asking.cancelled():
                    # Go below the question: it stays open on the screen.
                    self._keyboard.console.print()
                    return True
                decision = self._asking.result()
                if decision is None:
                    return False
                if await self._decide(asked, decision):
                    return True

    def withdraw(self) -> None:
        """Take the question back; an answer that is on its way goes on."""
        if self._asking is not None:
            self._asking.cancel()

    async def _decide(self, asked: Permission, decision: Decision) -> bool:
        self._ours.add(asked.permission_id)
        try:
            await decide(self._client, asked, decision)
        except Conflict:
            # Somebody was faster; the feed says so.
            self._ours.discard(asked.permission_id)
        except AgorError as error:
            self._ours.discard(asked.permission_id)
            self._showing.note(error.message)
            if error.hint:
                self._showing.note(error.hint)
            # Who may only look is not asked again.
            return isinstance(error, Forbidden)
        return True

    def note(self, answered: Permission) -> None:
        """Say what others have answered, or that nobody did."""
        self.missed = self.missed or answered.status == "timed_out"
        by_others = answered.permission_id not in self._ours and answered.decided_rule is None
        if by_others and answered.status in _ELSEWHERE:
            self._showing.note(f"{answered.tool_name} was {_ELSEWHERE[answered.status]}.")


class ForWantOfAPerson:
    """Denies at once, or leaves requests to people elsewhere."""

    def __init__(
        self, client: Client, session: Session, showing: Showing, *, elsewhere: bool
    ) -> None:
        self.missed = False
        self._client = client
        self._session = session
        self._showing = showing
        self._elsewhere = elsewhere

    async def answer(self, asked: Permission) -> bool:
        """Deny it and say how it would be allowed; or say where it can be answered."""
        what = f"{asked.tool_name} {brief(asked.tool_name, asked.tool_input)}".rstrip()
        if self._elsewhere:
            self._showing.aside_note(f"The agent asks for: {what}")
            self._showing.aside_note(f"  agor permission allow {asked.permission_id}")
            return True
        try:
            await decide(self._client, asked, Decision(approved=False, reason=_NOBODY))
        except Conflict:
            return True
        self.missed = True
        self._showing.aside_note(f"Denied, as there is no terminal to ask at: {what}")
        if questions_of(asked):
            self._showing.aside_note("  It is a question for people: --ask-elsewhere")
            return True
        self._showing.aside_note(f"  To allow it in advance: {self._rule(asked)}")
        self._showing.aside_note("  Or have a --mode decide, or people elsewhere: --ask-elsewhere")
        return True

    def withdraw(self) -> None:
        """Nobody is asked here."""

    def note(self, answered: Permission) -> None:
        """Remember that nobody came."""
        self.missed = self.missed or answered.status == "timed_out"

    def _rule(self, asked: Permission) -> str:
        member = subject_of(asked.tool_name, asked.tool_input)
        value = None if member is None else asked.tool_input[member]
        given = ["--input", f"{member}={value}"] if isinstance(value, str) else ["--any-input"]
        words = ["agor", "rule", "add", "allow", asked.tool_name, *given]
        return shlex.join([*words, "--workspace", self._session.workspace])


async def decide(client: Client, asked: Permission, decision: Decision) -> None:
    """Send an answer."""
    await client.decide(
        asked.permission_id, decision.approved, scope=decision.scope, rule=decision.rule,
        reason=decision.reason, updated_input=decision.updated_input,
    )  # fmt: skip

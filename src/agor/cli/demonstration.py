"""Shows the demo's session as `agor run` would, and kills the daemon in the middle of it."""

from __future__ import annotations

import asyncio
import contextlib
import time

from rich.console import Console

from agor.cli import background, exit_codes
from agor.cli.answering import Answering, AtTheTerminal, decide
from agor.cli.keyboard import Keyboard
from agor.cli.showing import ForPeople
from agor.cli.tool_calls import brief
from agor.cli.view import EventView
from agor.cli.watching import Watch
from agor.client import Client
from agor.home import Home
from agor.protocol.api import Decision, FeedEvent, Permission, Session


class YesForWantOfAPerson:
    """Answers the agent's questions where there is nobody to ask, and says so."""

    def __init__(self, client: Client, showing: ForPeople) -> None:
        self.missed = False
        self._client = client
        self._showing = showing

    async def answer(self, asked: Permission) -> bool:
        """Say yes."""
        what = f"{asked.tool_name} {brief(asked.tool_name, asked.tool_input)}".rstrip()
        self._showing.note(f"May the agent use {what}? No terminal to ask at: the demo says yes.")
        await decide(self._client, asked, Decision(approved=True))
        return True

    def withdraw(self) -> None:
        """Nobody is asked here."""

    def note(self, answered: Permission) -> None:
        """The answers are ours."""


class WithAMishap(ForPeople):
    """Shows a session, and has the daemon killed at a certain word of it."""

    def __init__(self, console: Console, view: EventView, but: str, home: Home, cue: str) -> None:
        super().__init__(console, view, but=but)
        self._home = home
        self._cue = cue
        self._said = ""
        self._mishap: asyncio.Task[None] | None = None

    def take(self, event: FeedEvent) -> None:
        """Show an event; at the cue, things happen."""
        super().take(event)
        if event.type == "block_delta" and self._mishap is None:
            self._said = (self._said + event.data["text"])[-200:]
            if self._cue in self._said:
                self._mishap = asyncio.create_task(self._kill_daemon())

    async def _kill_daemon(self) -> None:
        began = time.monotonic()
        self.note("(the daemon is killed, and started again)")
        await asyncio.to_thread(_replace_daemon, self._home)
        back = f"back after {time.monotonic() - began:.1f} s"
        self.note(f"(the daemon is {back}; the executor went on)")

    async def settled(self) -> None:
        """Wait until all is in order again."""
        if self._mishap is not None:
            await self._mishap


async def show(
    console: Console, home: Home, client: Client, session: Session, prompt: str, cue: str
) -> None:
    """Give the session its prompt and follow it to the end."""
    task_id = (await client.prompt(session.session_id, prompt)).task_id
    keyboard = Keyboard.find(console)
    view = EventView(console, workspace=session.workspace)
    showing = WithAMishap(console, view, task_id, home, cue)
    answering: Answering = (
        YesForWantOfAPerson(client, showing)
        if keyboard is None
        else AtTheTerminal(keyboard, client, session, showing)
    )
    watch = Watch(client, session, showing, answering)
    async with client.follow(session.session_id) as feed:
        with keyboard or contextlib.nullcontext(), view:
            if keyboard is not None:
                keyboard.on_end = watch.leave
            code = await watch.follow(feed, [task_id])
        await showing.settled()
    if code not in (exit_codes.COMPLETED, exit_codes.NOBODY_TO_ASK):
        raise SystemExit(code)
    console.print(
        f"{feed.cursor} events, each stored before it was shown, and each shown once", style="dim"
    )


def _replace_daemon(home: Home) -> None:
    background.kill(home)
    background.start(home, ["--port", "0"])

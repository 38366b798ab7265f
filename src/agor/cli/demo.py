"""`agor demo`: a real daemon, a real executor, and a scripted agent in place of a model.

No account, no key, no network. The daemon is killed in mid-sentence, to show that nothing is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import typer
import uvloop
from rich.console import Console
from rich.text import Text

from agor import linux
from agor.cli import background
from agor.cli.tool_calls import brief
from agor.cli.view import EventView
from agor.client import Client, Feed
from agor.config.editing import set_value
from agor.home import Home
from agor.protocol.api import FeedEvent, Permission, TaskState
from agor.protocol.events import EVENT_FORMS

app = typer.Typer(add_completion=False)

Script = list[dict[str, Any]]

QUESTION: Script = [
    {"thinking": "A small program was asked for. First a look at what is in the folder."},
    {"delay_ms": 400},
    {"run": ["ls", "-la"]},
    {"text": "The folder is empty. I will write the program, if you let me.\n"},
    {"tool": {"name": "Write", "input": {"file_path": "hello.py"}, "ask": True}},
]
PROGRAM = "print('hello from an isolated executor')"
_SENTENCE = "While this is said somebody kills the daemon: it goes on, and not a word is missed."
IF_ALLOWED: Script = [
    {"run": ["sh", "-c", f'echo "{PROGRAM}" > hello.py && python3 hello.py']},
    {"delay_ms": 400},
    {"run": ["sh", "-c", f"for word in {_SENTENCE}; do printf '%s ' $word; sleep 0.1; done"]},
    {"text": "Done.\n"},
]
IF_DENIED: Script = [{"text": "Then I leave the folder as it is.\n"}]
#: At this word the daemon is killed.
_CUE = "kills"
#: Seconds for the daemon to end with all that it started.
_PATIENCE = 20.0


class Demo:
    """One run of the demo, seen from where a person sits."""

    def __init__(self, console: Console, home: Home, client: Client) -> None:
        self._console = console
        self._home = home
        self._client = client
        self._view = EventView(console)
        self._allowed = True

    async def play(self, workspace: Path) -> None:
        """Have a session with two prompts."""
        session = await self._client.create_session("scripted", str(workspace), title="demo")
        async with self._client.follow(session.session_id) as feed:
            with self._view:
                await self._prompt(session.session_id, QUESTION, feed)
                script = IF_ALLOWED if self._allowed else IF_DENIED
                await self._prompt(session.session_id, script, feed)
        self._note(f"{feed.cursor} events, each stored before it was shown, and each shown once")

    async def _prompt(self, session_id: str, script: Script, feed: Feed) -> None:
        accepted = await self._client.prompt(session_id, json.dumps(script))
        async for event in feed:
            if event.type == "permission" and event.data["status"] == "pending":
                await self._decide(msgspec.convert(event.data, Permission))
            elif event.type == "task" and event.data["ended_at"] is not None:
                if event.task_id == accepted.task_id:
                    self._view.end(msgspec.convert(event.data, TaskState))
                    return
            else:
                await self._show(event)

    async def _show(self, event: FeedEvent) -> None:
        form = EVENT_FORMS.get(event.type)
        # What was asked is a script here, and nothing to read.
        if form is None or str(event.data.get("block_id")).endswith("-prompt"):
            return
        self._view.show(msgspec.convert(event.data, form))  # type: ignore[arg-type]
        if event.type == "block_delta" and _CUE in event.data["text"]:
            await self._kill_daemon()

    async def _kill_daemon(self) -> None:
        began = time.monotonic()
        self._view.pause()
        await asyncio.to_thread(_kill_daemon, self._home)
        back = f"back after {time.monotonic() - began:.1f} s"
        self._note(f"the daemon was killed (kill -9) and is {back}; the executor went on")
        self._view.resume()

    async def _decide(self, asked: Permission) -> None:
        question = (
            f"May the agent use {asked.tool_name} on {brief(asked.tool_name, asked.tool_input)}?"
        )
        self._view.pause()
        try:
            if not sys.stdin.isatty():
                text = Text(f"  {question} No terminal to ask at: the demo says yes.", "yellow")
                self._console.print(text, soft_wrap=True)
            else:
                self._console.print(Text(f"  {question} [Y/n] ", "bold yellow"), end="")
                self._allowed = (await _read_line()).strip().lower() in ("", "y", "yes")
        finally:
            self._view.resume()
        reason = None if self._allowed else "you said no"
        await self._client.decide(asked.permission_id, approved=self._allowed, reason=reason)

    def _note(self, words: str) -> None:
        self._console.print(Text(words, "dim"), soft_wrap=True)


@app.command()
def demo() -> None:
    """Play the scripted agent through a real daemon; needs no account and no key."""
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="agor-demo-") as folder, _ending_on_signals():
        home, workspace = Home(Path(folder, "home")), Path(folder, "workspace")
        workspace.mkdir()
        home.prepare()
        for name, value in (("daemon.drain_on_stop", "true"), ("log.format", "json")):
            set_value(home, name, value)
        try:
            uvloop.run(_demo(console, home, workspace))
        finally:
            background.stop(home, _PATIENCE, force=True)
    console.print("daemon and executor have ended; nothing is left behind", style="dim")


async def _demo(console: Console, home: Home, workspace: Path) -> None:
    daemon, _ = await asyncio.to_thread(background.start, home, ["--port", "0"])
    console.print(f"daemon at {daemon.url} · process {daemon.pid}", style="dim")
    async with Client.local(home) as client:
        await Demo(console, home, client).play(workspace)


def _kill_daemon(home: Home) -> None:
    running = home.running()
    if running is not None and running.process is not None:
        linux.send(running.process, signal.SIGKILL)
        while home.running() is not None:
            time.sleep(0.01)
    background.start(home, ["--port", "0"])


async def _read_line() -> str:
    """Read a line from the terminal; its end is a no. Waits so that Ctrl-C is heard."""
    loop = asyncio.get_running_loop()
    typed = asyncio.Event()
    loop.add_reader(0, typed.set)
    try:
        await typed.wait()
    finally:
        loop.remove_reader(0)
    return sys.stdin.readline() or "no"


@contextlib.contextmanager
def _ending_on_signals() -> Iterator[None]:
    """Leave nothing behind, also when we are told to end or the terminal is closed."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

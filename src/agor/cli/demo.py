"""`agor demo`: Claude Code in an isolated executor, with a scripted model in place of a provider.

No account, no key, no network. All else is real: the daemon, the agent's program, its tools, the
questions. The daemon is killed in mid-sentence, to show that nothing is lost. The agent has a home
of its own in a temporary folder, so nothing of this touches the person's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
import uvloop
from rich.console import Console

from agor.cli import background
from agor.cli.demonstration import show
from agor.client import Client
from agor.config.editing import set_value
from agor.home import Home
from agor.protocol.api import Session
from agor.testing.model import ModelServer

app = typer.Typer(add_completion=False)

AGENT, MODEL, KEY = "claude-code", "claude-sonnet-4-5", "sk-ant-of-the-demo"
PROMPT = "Write a program that says hello, and run it."
PROGRAM = """import getpass
import os

print(f"hello from process {os.getpid()}, which runs as {getpass.getuser()}")
"""
#: At this word the daemon is killed.
CUE = "killed"
#: Seconds for the daemon to end with all that it started.
_PATIENCE = 20.0


def script(workspace: Path) -> list[list[dict[str, Any]]]:
    """Write down what the model says: each time the agent asks it, the next part."""
    path = str(workspace / "hello.py")
    return [
        [
            {"thinking": "A small program was asked for. I write it, and then see that it works."},
            {"text": "I will write `hello.py`, if you let me."},
            {"tool": {"name": "Write", "input": {"file_path": path, "content": PROGRAM}}},
        ],
        [
            {"text": "Now I would like to run it."},
            {"tool": {"name": "Bash", "input": {"command": "python3 hello.py"}}},
        ],
        [
            {"pace_ms": 60},
            {
                "text": "That is all. While this is being said, the daemon is **killed** with "
                "`kill -9` and started again: the agent goes on, and not a word is missed.\n"
            },
        ],
    ]


@app.command()
def demo() -> None:
    """Watch Claude Code work against a scripted model; needs no account and no key."""
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="agor-demo-") as folder, _ending_on_signals():
        home, workspace = Home(Path(folder, "home")), Path(folder, "workspace")
        workspace.mkdir()
        home.prepare()
        for name, value in (("daemon.drain_on_stop", "true"), ("log.format", "json")):
            set_value(home, name, value)
        with _another_home(Path(folder, "person")):
            try:
                uvloop.run(_demo(console, home, workspace))
            finally:
                _step(console, "stopping the daemon, the executor and the agent")
                background.stop(home, _PATIENCE, force=True)
    _step(console, "daemon, executor and agent have ended; nothing is left behind")


async def _demo(console: Console, home: Home, workspace: Path) -> None:
    async with ModelServer(script=script(workspace), keys=[KEY], models=[MODEL]) as model:
        _step(console, f"scripted model at {model.url}, in place of a provider")
        _step(console, "starting a daemon, with a home of its own in a temporary folder")
        daemon, _ = await asyncio.to_thread(background.start, home, ["--port", "0"])
        _step(console, f"daemon at {daemon.url} · process {daemon.pid}")
        async with Client.local(home) as client:
            session = await _begin(client, model, workspace)
            console.print(f"\n> {PROMPT}\n", style="bold")
            _step(console, "starting Claude Code in an executor; the first time takes a while\n")
            await show(console, home, client, session, PROMPT, CUE)


def _step(console: Console, what: str) -> None:
    console.print(what, style="dim")


async def _begin(client: Client, model: ModelServer, workspace: Path) -> Session:
    """Keep the key, as a person would, and begin a session."""
    await client.credentials.set("ANTHROPIC_API_KEY", KEY, base_url=model.url)
    return await client.create_session(AGENT, workspace, title="demo", model=MODEL)


@contextlib.contextmanager
def _another_home(folder: Path) -> Iterator[None]:
    folder.mkdir(mode=0o700)
    before = os.environ.get("HOME")
    os.environ["HOME"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["HOME"]
        else:
            os.environ["HOME"] = before


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

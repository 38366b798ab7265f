"""`agor demo`: the scripted agent in a real executor, seen from where the daemon stands.

No account, no key, no network: only the model behind the agent is missing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console
from rich.text import Text

from agor.cli.view import EventView, brief
from agor.protocol.events import decode_event
from agor.protocol.methods import (
    ACK_MESSAGES,
    EXECUTE_PROMPT,
    GET_API_KEY,
    INITIALIZE,
    PROTOCOL_VERSION,
    REPORT_MESSAGE,
    REQUEST_PERMISSION,
    SHUTDOWN,
    AckMessagesParams,
    ExecutePromptParams,
    GetApiKeyParams,
    GetApiKeyResult,
    InitializeParams,
    ReportMessageParams,
    RequestPermissionParams,
    RequestPermissionResult,
    ShutdownParams,
)
from agor.rpc import Peer, Routes, unix

Script = list[dict[str, Any]]

QUESTION: Script = [
    {"thinking": "A small program was asked for. First a look at what is in the folder."},
    {"delay_ms": 400},
    {"run": ["ls", "-la"]},
    {"text": "The folder is empty. I will write the program, if you let me.\n"},
    {"tool": {"name": "Write", "input": {"file_path": "hello.py"}, "ask": True}},
]
PROGRAM = "print('hello from an isolated executor')"
IF_ALLOWED: Script = [
    {"run": ["sh", "-c", f'echo "{PROGRAM}" > hello.py && python3 hello.py']},
    {"delay_ms": 400},
    {"key": "ANTHROPIC_API_KEY"},
    {"text": "Done. The key came when it was needed, and is in no environment and no argv.\n"},
]
IF_DENIED: Script = [{"text": "Then I leave the folder as it is.\n"}]


class DemoDaemon:
    """The daemon's side of the wire, in small: shows events, answers questions."""

    def __init__(self, console: Console, view: EventView) -> None:
        self._console = console
        self._view = view
        self.routes = Routes()
        self.routes.on_notice(REPORT_MESSAGE, self._report)
        self.routes.on(REQUEST_PERMISSION, self._decide)
        self.routes.on(GET_API_KEY, self._key)
        self.peer: Peer | None = None
        self.allowed = True

    def _report(self, message: ReportMessageParams) -> None:
        self._view.show(decode_event(message.event_type, message.event_data))
        if self.peer is not None:
            acknowledgement = AckMessagesParams(task_id=message.task_id, sequence=message.sequence)
            self.peer.notify(ACK_MESSAGES, acknowledgement)

    async def _decide(self, request: RequestPermissionParams) -> RequestPermissionResult:
        question = f"May the agent use {request.tool_name} on {brief(request.tool_input)}?"
        self._view.pause()
        try:
            if not sys.stdin.isatty():
                text = Text(f"  {question} No terminal to ask at: the demo says yes.", "yellow")
                self._console.print(text, soft_wrap=True)
                return RequestPermissionResult(approved=True, reason="demo without a terminal")
            prompt = Text(f"  {question} [Y/n] ", "bold yellow")
            self._console.print(prompt, end="")
            answer = await _read_line()
        finally:
            self._view.resume()
        self.allowed = answer.strip().lower() in ("", "y", "yes")
        reason = None if self.allowed else "you said no"
        return RequestPermissionResult(approved=self.allowed, reason=reason)

    def _key(self, _: GetApiKeyParams) -> GetApiKeyResult:
        return GetApiKeyResult(api_key="a-key-that-only-the-demo-knows")


def demo() -> None:
    """Play the scripted agent through a real executor; needs no account and no key."""
    with tempfile.TemporaryDirectory(prefix="agor-demo-") as folder:
        workspace = Path(folder, "workspace")
        workspace.mkdir()
        uvloop.run(_demo(Console(highlight=False), Path(folder, "executor.sock"), workspace))


async def _demo(console: Console, socket_path: Path, workspace: Path) -> None:
    view = EventView(console)
    daemon = DemoDaemon(console, view)
    async with _executor(socket_path, daemon.routes) as peer:
        daemon.peer = peer
        greeting = InitializeParams(protocol_version=PROTOCOL_VERSION, daemon_id="demo")
        hello = await peer.call(INITIALIZE, greeting)
        console.print(
            f"executor {hello.executor_id[:8]} · process {hello.pid} · user {hello.unix_user}",
            style="dim",
        )
        with view:
            await _prompt(peer, "demo-1", QUESTION, workspace)
            await _prompt(peer, "demo-2", IF_ALLOWED if daemon.allowed else IF_DENIED, workspace)
        ended = await peer.call(SHUTDOWN, ShutdownParams(reason="the demo is over"))
        console.print(f"executor ended ({ended.status}); nothing is left behind", style="dim")


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


async def _prompt(peer: Peer, task_id: str, script: Script, cwd: Path) -> None:
    prompt = ExecutePromptParams(
        session_token="demo",  # noqa: S106 - it guards nothing but this demo
        session_id="demo",
        task_id=task_id,
        agentic_tool="scripted",
        prompt=json.dumps(script),
        cwd=str(cwd),
    )
    await peer.call(EXECUTE_PROMPT, prompt, timeout=None)


@contextlib.asynccontextmanager
async def _executor(path: Path, routes: Routes) -> AsyncIterator[Peer]:
    """Start an executor on a socket that we bound, and connect to it."""
    bound = unix.bind(path)
    command = [sys.executable, "-m", "agor.executor.main", "--listen-fd", "0"]
    with subprocess.Popen(  # noqa: ASYNC220 - starting it takes a millisecond
        [*command, "--log-level", "warning", "--orphan-timeout-ms", "1000"],
        stdin=bound.listener.fileno(),
        start_new_session=True,
    ) as process:
        bound.listener.close()
        try:
            # It listens already: connecting succeeds before the process is up.
            peer = await unix.connect(path, routes)
            try:
                yield peer
            finally:
                await peer.close()
        finally:
            process.terminate()

"""One agent in a real executor against a scripted model, in a home of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec

from agor import linux
from agor.protocol.api import FeedEvent, Message
from agor.protocol.conversation import Conversation
from agor.protocol.events import TaskResult
from agor.protocol.methods import RequestPermissionParams, RequestPermissionResult
from agor.testing.model import ModelServer
from tests.agents.subjects.base import Step, Subject
from tests.integration.daemon_side import Daemon, daemon, new_task_id
from tests.integration.executor_process import ExecutorProcess, start_warm

#: Seconds for anything an agent does; on a busy machine they are eight times slower than alone.
PATIENCE = 90.0
KEY = "sk-ant-of-the-tests-0123456789"

Turns = list[Any]


def prompt_of(words: str, *turns: list[Step]) -> str:
    """Make a prompt that brings along what the model says to it."""
    return f"{words}\n{json.dumps({'model_script': list(turns)})}"


class Site:
    """Where an agent is tried."""

    def __init__(self, subject: Subject, folder: Path, model: ModelServer) -> None:
        self.subject = subject
        self.folder = folder
        self.model = model
        self.home = folder / "home"
        self.workspace = folder / "workspace"
        for path in (self.home, self.workspace, folder / "tmp"):
            path.mkdir()
        self._executors: list[ExecutorProcess] = []

    @property
    def executor(self) -> ExecutorProcess:
        """The one that was started last."""
        return self._executors[-1]

    @contextlib.asynccontextmanager
    async def connected(self, *, keys: dict[str, str] | None = None) -> AsyncIterator[Trial]:
        """Start another executor and connect to it; it is ended in order."""
        path = self.start().path
        subject = self.subject
        given = {subject.credential: KEY} if keys is None else keys
        async with daemon(path, keys=given, patience=PATIENCE) as side:
            side.base_url = self.model.url + subject.base_path
            yield Trial(self, side)
            with contextlib.suppress(Exception):
                await side.shutdown(timeout_ms=0)
        await self.executor.ended()

    def start(self) -> ExecutorProcess:
        """Start another executor, which ends with the site."""
        path = self.folder / f"executor-{len(self._executors)}.sock"
        self._executors.append(start_warm(path=path, env=self._environment()))
        return self.executor

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TMPDIR": str(self.folder / "tmp"),
            "AGOR_AGENTS": os.environ["AGOR_AGENTS"],
            "LANG": "C.UTF-8",
            # Nothing of this may reach an agent.
            "AGOR_TEST_CANARY": "canary-of-the-executor",
        }

    def processes(self) -> dict[int, str]:
        """Find what runs with our home and is no executor, by its command line."""
        executors = {executor.pid for executor in self._executors}
        found = {}
        for process in linux.marked("HOME", str(self.home)):
            if process.pid not in executors:
                with contextlib.suppress(OSError):
                    words = Path(f"/proc/{process.pid}/cmdline").read_bytes().replace(b"\0", b" ")
                    found[process.pid] = words.decode(errors="replace")
        return found

    def programs(self) -> set[int]:
        """Find the agent's own program, however many of it there are."""
        wanted = self.subject.program
        return {pid for pid, words in self.processes().items() if wanted in words}

    def kill_programs(self) -> None:
        """Kill the agent's own program."""
        for pid in self.programs():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def kill_all(self) -> None:
        """Kill all that runs in our home but the executors, and wait until it has ended."""
        killed = [each for pid in self.processes() if (each := linux.process_of(pid)) is not None]
        for process in killed:
            linux.send(process, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            while any(linux.is_alive(process) for process in killed):
                await asyncio.sleep(0.005)

    async def no_process_left(self) -> None:
        """Wait until nothing runs in our home; there is no event for that."""
        async with asyncio.timeout(PATIENCE):
            while self.processes():
                await asyncio.sleep(0.02)

    def move_home_away(self) -> None:
        """Give the agent an empty home, as on another machine."""
        self.home.rename(self.folder / "home-of-before")
        self.home.mkdir()

    def clean_up(self) -> None:
        for executor in self._executors:
            executor.clean_up()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Trial:
    """A session of an agent, seen from the daemon's side."""

    def __init__(self, site: Site, side: Daemon) -> None:
        self.site = site
        self.side = side
        self.resume: str | None = None
        self.tasks: list[str] = []

    async def prompt(self, words: str, *turns: list[Step], **more: Any) -> TaskResult:
        """Prompt the agent and wait for the end of its turn."""
        return await self.start(words, *turns, **more)

    def start(self, words: str, *turns: list[Step], **more: Any) -> asyncio.Task[TaskResult]:
        """Prompt the agent; its task has the id as its name."""
        subject = self.site.subject
        task_id = new_task_id()
        self.tasks.append(task_id)
        params = {
            "agentic_tool": subject.agentic_tool,
            "cwd": str(self.site.workspace),
            "model": subject.model,
            "resume": self.resume,
        }
        run = self.side.start(prompt_of(words, *turns), task_id, **(params | more))
        return asyncio.create_task(self._noted(run), name=task_id)

    async def _noted(self, run: asyncio.Task[TaskResult]) -> TaskResult:
        result = await run
        self.resume = result.agent_session_id or self.resume
        return result

    def answer(self, *, approved: bool, reason: str | None = None) -> None:
        """Answer every question like this from now on."""
        self.side.decide = lambda _: RequestPermissionResult(approved=approved, reason=reason)

    async def asked(self) -> RequestPermissionParams:
        """Wait for the first question."""
        await self.side.until(lambda: self.side.questions)
        return self.side.questions[0]

    def blocks(self, *task_ids: str) -> list[Message]:
        """Put the blocks of tasks together, as the daemon would; of all tasks if none is named."""
        return folded(self.side, *(task_ids or self.tasks))

    def text(self, kind: str = "text") -> str:
        """All that the last task said of one kind."""
        return "".join(block.text for block in self.blocks(self.tasks[-1]) if block.kind == kind)


@contextlib.asynccontextmanager
async def site_of(subject: Subject) -> AsyncIterator[Site]:
    """Have a home, a workspace and a scripted model for one agent."""
    with folder_of_its_own() as folder:
        async with ModelServer(models=(subject.model, subject.other_model)) as model:
            site = Site(subject, folder, model)
            try:
                yield site
            finally:
                site.clean_up()


def folded(side: Daemon, *task_ids: str) -> list[Message]:
    """Put the blocks of tasks together, as the daemon would."""
    conversation = Conversation()
    for task_id in task_ids:
        for message in side.messages[task_id]:
            data = msgspec.json.decode(message.event_data)
            conversation.take(
                FeedEvent(message.sequence, message.event_type, task_id, data, message.timestamp)
            )
    return conversation.messages


@contextlib.contextmanager
def folder_of_its_own() -> Iterator[Path]:
    """Make a folder that is in no temporary folder: agents treat what is in there otherwise."""
    folder = Path(tempfile.mkdtemp(prefix="agor-agent-", dir="/var/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)

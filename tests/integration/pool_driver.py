"""A pool in a process of its own, told what to do by JSON lines; `pool_process` is the other end.

    {"id": 1, "do": "acquire", "session": "a", "unix_user": "anna"}
    {"id": 1, "ok": {"executor_id": …}}    or    {"id": 1, "error": {"code", "message", "hint"}}

Requests are served at the same time; an answer comes when it is there. The end of the input closes
the pool and ends everything. It imports nothing of the tests: it runs as other users, elsewhere.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import uvloop

from agor import logs
from agor.daemon.pool.ending import Ending
from agor.daemon.pool.pool import Pool
from agor.daemon.pool.records import FileRecords
from agor.daemon.pool.settings import Claim, PoolSettings
from agor.errors import AgorError, InvalidParams
from agor.execution import ExecutionEnvironment
from agor.protocol.events import BlockDelta, TaskResult, decode_event
from agor.protocol.limits import ResourceLimits
from agor.protocol.methods import ExecutePromptParams, ReportMessageParams


class EventKeeper:
    """The pool's host: keeps what tasks say, and wakes whoever waits for it."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.results: dict[str, TaskResult] = {}
        self.news = asyncio.Condition()
        self._wakers: set[asyncio.Task[None]] = set()

    def take_events(
        self, environment: ExecutionEnvironment, events: list[ReportMessageParams]
    ) -> None:
        for message in events:
            event = decode_event(message.event_type, message.event_data)
            if isinstance(event, BlockDelta):
                said = self.texts.get(message.task_id, "")
                self.texts[message.task_id] = said + event.text
            elif isinstance(event, TaskResult):
                self.results[message.task_id] = event
            environment.acknowledge(message.task_id, message.sequence)
        self.wake()

    def refuse_event(self, _: ExecutionEnvironment, error: InvalidParams) -> None:
        raise AssertionError(error.message)

    def wake(self) -> None:
        task = asyncio.create_task(self._wake())
        self._wakers.add(task)
        task.add_done_callback(self._wakers.discard)

    async def _wake(self) -> None:
        async with self.news:
            self.news.notify_all()

    async def get_api_key(self, *_: object) -> NoReturn:
        raise AgorError("there are no keys here")

    async def request_permission(self, *_: object) -> NoReturn:
        raise AgorError("there is nobody to ask")

    def take_terminal(self, *_: object) -> None:
        raise AssertionError("nobody has opened a terminal")


class Driver:
    """What can be asked of the pool: every `do_` method, by its name."""

    def __init__(self, settings: dict[str, Any]) -> None:
        settings["runtime"] = Path(settings["runtime"])
        settings["limits"] = msgspec.convert(settings.get("limits", {}), ResourceLimits)
        self._host = EventKeeper()
        self._endings: dict[str, Ending] = {}
        records = FileRecords(settings["runtime"].with_suffix(".records"))
        self._pool = Pool(PoolSettings(**settings), self._host, records, on_end=self._note_end)
        self._environments: dict[str, ExecutionEnvironment] = {}
        self._prompts: dict[str, asyncio.Task[TaskResult]] = {}

    def _note_end(self, ending: Ending) -> None:
        self._endings[ending.session_id] = ending
        self._host.wake()

    async def do_open(self) -> dict[str, Any]:
        """Take back what there is."""
        found = await self._pool.open()
        for one in found:
            self._environments[one.pooled.claim.session_id] = one.pooled.environment
        taken_back = [
            {
                "session": one.pooled.claim.session_id,
                "unix_user": one.pooled.identity.name,
                "tasks": {task.task_id: task.state for task in one.tasks},
            }
            for one in found
        ]
        return {"backend": self._pool.backend, "taken_back": taken_back}

    async def do_acquire(
        self, session: str, unix_user: str | None = None, user: str = "somebody"
    ) -> dict[str, Any]:
        """Get an executor, and tell its processes."""
        claim = Claim(session_id=session, user_id=user, unix_username=unix_user)
        environment = self._environments[session] = await self._pool.acquire(claim)
        info: dict[str, Any] = msgspec.to_builtins(environment.info)
        return (await self.do_family(session)) | info

    async def do_family(self, session: str) -> dict[str, Any]:
        """Tell the processes of an executor, and where it is reached."""
        pooled = next(p for p in self._pool.executors() if p.claim.session_id == session)
        family = pooled.folder.read_family()
        assert family is not None
        return {
            "executor": family.executor.pid,
            "keeper": family.keeper.pid,
            "socket": str(pooled.folder.socket_path),
        }

    async def do_prompt(self, session: str, task: str, script: list[Any], cwd: str) -> None:
        """Begin a task."""
        params = ExecutePromptParams(
            session_token="of-a-test", session_id=session, task_id=task,
            agentic_tool="scripted", prompt=json.dumps(script), cwd=cwd,
        )  # fmt: skip
        work = asyncio.create_task(self._environments[session].execute_prompt(params))
        work.add_done_callback(lambda _: self._host.wake())
        self._prompts[task] = work

    async def do_result(self, task: str) -> dict[str, Any]:
        """Wait for the end of a task: how it ended, and all that it said."""
        async with self._host.news:
            await self._host.news.wait_for(
                lambda: task in self._host.results or self._refused(task)
            )
        if task not in self._host.results:
            await self._prompts[task]
        result: dict[str, Any] = msgspec.to_builtins(self._host.results[task])
        return result | {"text": self._host.texts.get(task, "")}

    def _refused(self, task: str) -> bool:
        prompt = self._prompts.get(task)
        return prompt is not None and prompt.done() and prompt.exception() is not None

    async def do_said(self, task: str, text: str) -> None:
        """Wait until a task has said something."""
        async with self._host.news:
            await self._host.news.wait_for(lambda: text in self._host.texts.get(task, ""))

    async def do_release(self, session: str) -> None:
        """Give an executor back."""
        self._pool.release(session)

    async def do_stop(self, session: str) -> dict[str, Any] | None:
        """End an executor."""
        ending = await self._pool.stop(session, "the test stops it")
        return None if ending is None else dataclasses.asdict(ending)

    async def do_ended(self, session: str) -> dict[str, Any]:
        """Wait for the end of an executor that nobody stops."""
        async with self._host.news:
            await self._host.news.wait_for(lambda: session in self._endings)
        return dataclasses.asdict(self._endings[session])

    async def do_close(self, drain: bool = True) -> None:
        """Close the pool."""
        await self._pool.close(drain=drain)
        for prompt in self._prompts.values():
            prompt.cancel()
        await asyncio.gather(*self._prompts.values(), return_exceptions=True)


async def _answer(driver: Driver, request: dict[str, Any]) -> None:
    number, name = request.pop("id"), request.pop("do")
    answer: dict[str, Any]
    try:
        answer = {"ok": await getattr(driver, f"do_{name}")(**request)}
    except AgorError as error:
        answer = {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
    except Exception as error:  # noqa: BLE001 - the test shall see it
        answer = {"error": {"code": type(error).__name__, "message": str(error), "hint": None}}
    print(json.dumps({"id": number} | answer), flush=True)


async def main() -> None:
    """Serve standard input until it ends."""
    reader = asyncio.StreamReader(limit=2**24)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    driver = Driver(json.loads(await reader.readline()))
    serving = set()
    while line := await reader.readline():
        serving.add(asyncio.create_task(_answer(driver, json.loads(line))))
    for task in serving:
        task.cancel()
    await driver.do_close()


if __name__ == "__main__":
    logs.configure("debug", "json")
    uvloop.run(main())

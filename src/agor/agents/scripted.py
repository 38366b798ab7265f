"""The scripted agent: plays a script instead of asking a model.

If the prompt is a JSON array it is the script; otherwise the prompt is echoed word by word. What it
does is real (processes, permissions, keys, crashes), so demos and tests need no model.

    {"text": "…"}  {"thinking": "…"}            say something, word by word
    {"tool": {"name", "input", "output", "ask"}}  use a tool; with ask, only if a person agrees
    {"key": "ANTHROPIC_API_KEY"}                fetch a key, show its last four characters
    {"run": ["sh", "-c", "…"]}                  run a real child process, stream its output
    {"delay_ms": n}                             wait
    {"flood": {"events": n, "bytes": m}}        n deltas of m characters
    {"fail": "…"}  {"crash": 9}                 fail; kill the executor with a signal
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

import agor
from agor.agents.base import Agent
from agor.agents.processes import child, describe_exit
from agor.agents.turn import Block, Turn
from agor.errors import AgentFailed, BadScript
from agor.protocol.events import BlockKind, Log, MetadataUpdate, TokenUsage
from agor.protocol.methods import AgentInfo
from agor.protocol.validation import UNREADABLE, name_the_field

Count = Annotated[int, Meta(ge=0, le=2**53)]

#: Keys shorter than this would be given away by their last four characters.
_SHORT_KEY = 12


class Tool(Struct, forbid_unknown_fields=True):
    """A pretended tool call."""

    name: str
    input: dict[str, Any] = {}
    output: str = ""
    ask: bool = False


class Flood(Struct, forbid_unknown_fields=True):
    """Very many deltas."""

    events: Count
    bytes: Count = 100


class Step(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One step; exactly one member is set."""

    text: str | None = None
    thinking: str | None = None
    tool: Tool | None = None
    key: str | None = None
    run: Annotated[list[str], Meta(min_length=1)] | None = None
    delay_ms: Count | None = None
    flood: Flood | None = None
    fail: str | None = None
    crash: Annotated[int, Meta(ge=1, le=64)] | None = None


def read_script(prompt: str) -> list[Step]:
    """Turn a prompt into steps; the whole script is checked before the first one is played."""
    try:
        script = msgspec.json.decode(prompt.encode(errors="surrogatepass"))
    except UNREADABLE:
        script = None
    if not isinstance(script, list):
        return [Step(text=prompt)]
    try:
        steps = msgspec.convert(script, list[Step])
    except msgspec.ValidationError as error:
        raise BadScript(name_the_field(error, "script")) from None
    for number, step in enumerate(steps):
        members = [name for name in step.__struct_fields__ if getattr(step, name) is not None]
        if len(members) != 1:
            raise BadScript(
                f"script[{number}]: a step has exactly one member, not {len(members)}",
                hint=f"Members: {', '.join(step.__struct_fields__)}.",
            )
    return steps


class ScriptedAgent(Agent):
    """Plays the script of its prompt."""

    name = "scripted"

    @classmethod
    def describe(cls) -> AgentInfo:
        """It is always there: it needs nothing."""
        return AgentInfo(name=cls.name, available=True, version=agor.__version__)

    _tool_numbers: Iterator[int]
    _words: int

    async def run(self, turn: Turn) -> None:
        """Play the script."""
        steps = read_script(turn.params.prompt)
        self._tool_numbers = itertools.count(1)
        self._words = 0
        turn.agent_session_id = turn.params.resume or f"scripted-{turn.params.session_id}"
        model = turn.params.model or self.name
        await turn.tell(MetadataUpdate(model=model, agent_session_id=turn.agent_session_id))
        for step in steps:
            await self._play(step, turn)
        # A word is a token here: enough for sums that a test can check.
        turn.usage = TokenUsage(input=len(turn.params.prompt.split()), output=self._words)
        turn.cost = 0.0
        await turn.tell(MetadataUpdate(usage=turn.usage, cost=turn.cost))

    async def _play(self, step: Step, turn: Turn) -> None:
        if step.text is not None:
            await self._say("text", step.text, turn)
        elif step.thinking is not None:
            await self._say("thinking", step.thinking, turn)
        elif step.tool is not None:
            await self._use_tool(step.tool, turn)
        elif step.run is not None:
            await self._run(step.run, turn)
        elif step.flood is not None:
            await self._flood(step.flood, turn)
        else:
            await self._play_quiet(step, turn)

    async def _play_quiet(self, step: Step, turn: Turn) -> None:
        if step.key is not None:
            key = (await turn.fetch_key(step.key)).api_key
            shown = f"…{key[-4:]}" if len(key) >= _SHORT_KEY else "…"
            await turn.tell(Log("info", f"got {step.key} {shown}"))
        elif step.delay_ms is not None:
            await asyncio.sleep(step.delay_ms / 1000)
        elif step.fail is not None:
            raise AgentFailed(step.fail)
        elif step.crash is not None:
            os.kill(os.getpid(), step.crash)

    async def _say(self, kind: BlockKind, text: str, turn: Turn) -> None:
        block = await turn.start_block(kind)
        for word in re.findall(r"\S+\s*|\s+", text):
            await block.add(word)
        self._words += len(text.split())
        await block.complete()

    async def _use_tool(self, tool: Tool, turn: Turn) -> None:
        use, use_id = await self._start_tool(tool.name, tool.input, turn)
        if tool.ask:
            decision = await turn.permit(use, tool.name, tool.input, use_id)
            if not decision.approved:
                await use.complete(is_error=True)
                reason = decision.reason or "denied"
                await self._tool_result(use_id, reason, turn, is_error=True)
                return
        await use.update("completed")
        await use.complete()
        await self._tool_result(use_id, tool.output, turn)

    async def _run(self, command: list[str], turn: Turn) -> None:
        use, use_id = await self._start_tool("run", {"command": command}, turn)
        result = await turn.start_block("tool_result", tool_use_id=use_id)
        async with child(command, turn.params.cwd) as process:
            await use.update("running")
            async for text in process.output():
                await result.add(text)
            code = await process.wait()
        how = None if code == 0 else describe_exit(code)
        await use.update("completed" if code == 0 else "failed", reason=how)
        await use.complete(is_error=code != 0)
        await result.complete(is_error=code != 0)

    async def _flood(self, flood: Flood, turn: Turn) -> None:
        block = await turn.start_block("text")
        text = "x" * flood.bytes
        for _ in range(flood.events):
            await block.add(text)
        await block.complete()

    async def _start_tool(
        self, name: str, tool_input: dict[str, Any], turn: Turn
    ) -> tuple[Block, str]:
        use_id = f"{turn.params.task_id}-t{next(self._tool_numbers)}"
        block = await turn.start_block(
            "tool_use", tool_use_id=use_id, tool_name=name, tool_input=tool_input
        )
        return block, use_id

    async def _tool_result(
        self, use_id: str, text: str, turn: Turn, *, is_error: bool = False
    ) -> None:
        block = await turn.start_block("tool_result", tool_use_id=use_id)
        await block.add(text)
        await block.complete(is_error=is_error)

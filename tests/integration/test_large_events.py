"""Events near the cap of a line, or over it: they are told in pieces or cut, never left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from agor.protocol.events import TaskResult
from tests.integration.daemon_side import TOKEN, Script, daemon, prompt_params

CAP = 20_000
#: Each event of a task repeats its id more often than its prompt does, so it is longer than that.
TASK = "t" * 200


def filled(step: Callable[[str], dict[str, Any]]) -> Script:
    """Make a script whose prompt just fits into a line."""
    message = {
        "jsonrpc": "2.0",
        "id": 1000,
        "method": "execute_prompt",
        "params": prompt_params([step("")], TASK),
    }
    return [step("x" * (CAP - 1 - len(msgspec.json.encode(message))))]


SCRIPTS: dict[str, Script] = {
    "text": filled(lambda filling: {"text": filling}),
    "failure": filled(lambda filling: {"fail": filling}),
    "tool-name": filled(lambda filling: {"tool": {"name": filling}}),
    "tool-input": filled(lambda filling: {"tool": {"name": "X", "input": {"a": filling}}}),
    "tool-output": filled(lambda filling: {"tool": {"name": "X", "output": filling}}),
    "flood": [{"flood": {"events": 3, "bytes": 3 * CAP}}],
    "output": [{"run": ["head", "-c", str(3 * CAP), "/dev/zero"]}],
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
async def test_an_event_near_the_cap_leaves_no_gap_and_holds_up_nothing(start, script):
    executor = start("--max-line-bytes", str(CAP))
    async with daemon(executor.path, acknowledge=False) as first:
        first.start(script, TASK)
        last = await first.finished(TASK)
        assert first.sequences(TASK) == list(range(1, last + 1))
        assert len(first.of_kind(TASK, TaskResult)) == 1
    async with daemon(executor.path) as second:
        assert await second.finished(TASK) == last
        assert second.sequences(TASK) == list(range(1, last + 1)), "nor after a reconnect"
        assert (await second.prompt("hello", "next")).status == "completed"


@pytest.mark.parametrize(("events", "characters"), [(3, 3 * CAP), (2, CAP)])
async def test_a_text_over_the_cap_arrives_whole(start, events, characters):
    executor = start("--max-line-bytes", str(CAP))
    async with daemon(executor.path) as side:
        result = await side.prompt([{"flood": {"events": events, "bytes": characters}}], TASK)
        assert result.status == "completed"
        assert side.text(TASK) == "x" * events * characters


async def test_a_prompt_over_the_cap_is_refused_and_the_connection_goes_on(start):
    executor = start("--max-line-bytes", str(CAP))
    async with daemon(executor.path) as side:
        run = side.start("x" * CAP, "too-long")
        await executor.logged(f"over {CAP} bytes")
        assert (await side.prompt("hello", "next")).status == "completed"
        assert "too-long" not in side.messages
        run.cancel()


async def test_sixteen_mebibytes_go_through_with_the_default_cap(own_executor):
    text = "0123456789abcdef" * (2**20 - 50)
    async with daemon(own_executor.path) as side:
        result = await side.prompt(text, "large", session_token=TOKEN)
        assert result.status == "completed"
        assert side.text("large") == text

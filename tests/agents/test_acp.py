"""Agents over ACP that behave oddly: they fail their own turn, and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agor.agents.acp.launch import Launch
from agor.agents.acp.session import Session
from agor.errors import AgentFailed, InvalidParams
from agor.protocol.api import Message
from agor.protocol.events import TaskResult
from agor.protocol.methods import RequestPermissionResult
from tests.agents.needed import need_agent
from tests.agents.site import folded, site_of
from tests.agents.subjects.acp import ACP
from tests.integration.daemon_side import Daemon, daemon
from tests.integration.executor_process import start_warm

#: Claude's adapter as it is for everybody but root: with a mode that asks about nothing.
UNPRIVILEGED = replace(ACP, agentic_tool=ACP.agentic_tool.replace("acp:", "acp:IS_SANDBOX=1 "))
ODD = Path(__file__).with_name("odd_acp_agent.py")
WRITE = {
    "toolCallId": "c1",
    "title": "Write a.txt",
    "kind": "edit",
    "rawInput": {"file_path": "/tmp/a.txt"},
}


class Odd:
    """One session with the odd agent."""

    def __init__(self, side: Daemon, cwd: Path) -> None:
        self.side = side
        self.cwd = cwd
        self.resume: str | None = None
        self.task = ""

    async def prompt(self, *steps: dict[str, Any], flags: str = "", **more: Any) -> TaskResult:
        result = await self.start(*steps, flags=flags, **more)
        self.resume = result.agent_session_id
        return result

    def start(
        self, *steps: dict[str, Any], flags: str = "", **more: Any
    ) -> asyncio.Task[TaskResult]:
        name = f"acp:{sys.executable} {ODD} {flags}".strip()
        params = {"agentic_tool": name, "cwd": str(self.cwd), "resume": self.resume} | more
        run = self.side.start(json.dumps(steps), **params)
        self.task = run.get_name()
        return run

    def blocks(self, kind: str) -> list[Message]:
        return [block for block in folded(self.side, self.task) if block.kind == kind]

    def text(self) -> str:
        return "".join(block.text for block in self.blocks("text"))


@pytest.fixture
async def odd(tmp_path: Path) -> AsyncIterator[Odd]:
    executor = start_warm(path=tmp_path / "executor.sock", env=dict(os.environ))
    try:
        async with daemon(executor.path, patience=60.0) as side:
            yield Odd(side, tmp_path)
    finally:
        executor.clean_up()


def code_of(result: TaskResult) -> str | None:
    return None if result.error is None else result.error.code


# ── what is no ACP ───────────────────────────────────────────────────────────────────────────


async def test_an_agent_that_never_answers_is_given_up(tmp_path: Path):
    launch = Launch(
        name="odd",
        command=(sys.executable, str(ODD), "--silent"),
        environment={},
        cwd=str(tmp_path),
        mcp_servers={},
        patience=0.5,
    )
    with pytest.raises(AgentFailed, match=r"did not answer within 0\.5 s"):
        await Session.open(launch, None)


async def test_a_few_lines_that_are_no_messages_are_passed_over(odd: Odd):
    result = await odd.prompt({"raw": "hello, I am odd"}, {"raw": "[1]", "times": 5}, {"flood": 2})
    assert (code_of(result), odd.text()) == (None, "0 1 ")


@pytest.mark.parametrize(
    "line",
    ["not JSON", '{"jsonrpc": "2.0"}', '{"id": [], "result": 1}', '{"id": 1, "error": "no"}'],
)
async def test_an_agent_that_talks_nonsense_fails_its_turn(odd: Odd, line: str):
    result = await odd.prompt({"raw": line, "times": 5000}, {"wait": True}, flags="--loads")
    assert code_of(result) == "agent_failed"
    assert "Agent Client Protocol" in (result.error.message if result.error else "")
    assert code_of(await odd.prompt({"flood": 1}, flags="--loads")) is None


async def test_updates_of_kinds_that_we_do_not_know_are_passed_over(odd: Odd):
    unknown = {"sessionUpdate": "of_next_year", "content": 1}
    line = json.dumps(
        {"method": "session/update", "params": {"sessionId": "odd-session", "update": unknown}}
    )
    result = await odd.prompt({"raw": line, "times": 500}, {"flood": 2})
    assert (code_of(result), odd.text()) == (None, "0 1 ")


async def test_an_agent_of_another_version_is_refused(odd: Odd):
    result = await odd.prompt(flags="--new")
    assert code_of(result) == "agent_failed"
    assert "speaks version 7" in (result.error.message if result.error else "")


async def test_a_session_without_a_name_is_refused(odd: Odd):
    assert code_of(await odd.prompt(flags="--nameless")) == "agent_failed"


async def test_a_program_that_is_not_there_is_named(odd: Odd):
    result = await odd.prompt(agentic_tool="acp:no-such-program --flag")
    assert (code_of(result), "no-such-program" in str(result.error)) == ("agent_missing", True)


@pytest.mark.parametrize("name", ["acp:", "acp:A=b", "acp:'unclosed"])
async def test_a_name_without_a_command_is_refused(odd: Odd, name: str):
    with pytest.raises(InvalidParams, match=r"params\.agentic_tool"):
        await odd.prompt(agentic_tool=name)


# ── much, and the end ────────────────────────────────────────────────────────────────────────


async def test_a_flood_is_told_whole_and_in_order(odd: Odd):
    result = await odd.prompt({"flood": 20_000})
    assert code_of(result) is None
    assert odd.text() == "".join(f"{number} " for number in range(20_000))


async def test_a_program_that_ends_in_mid_turn_is_quoted(odd: Odd):
    result = await odd.prompt({"flood": 1}, {"exit": 3, "words": "I have had enough"})
    assert code_of(result) == "agent_ended"
    assert "(exit code 3): I have had enough" in (result.error.message if result.error else "")
    assert all(block.complete for block in odd.blocks("text"))


async def test_a_stop_tells_the_agent_to_cancel(odd: Odd):
    run = odd.start({"flood": 1}, {"wait": True})
    await odd.side.until(lambda: odd.side.text(odd.task))
    assert (await odd.side.stop(odd.task)).stopped
    assert (await run).status == "cancelled"


@pytest.mark.parametrize("reason", ["refusal", "max_turn_requests", "cancelled"])
async def test_a_turn_that_was_not_done_is_not_completed(odd: Odd, reason: str):
    assert code_of(await odd.prompt({"stop": reason})) == "agent_failed"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ({"code": -32000, "message": "Authentication required"}, "bad_api_key"),
        ({"code": 429, "message": "slow down"}, "rate_limited"),
        ({"code": -32603, "message": "Internal error", "data": {"details": "HTTP 503"}},
         "provider_overloaded"),
        ({"code": -32603, "message": "prompt is too long: 9 > 8"}, "context_full"),
        ({"code": -32603, "message": "a bug of mine"}, "agent_failed"),
    ],
)  # fmt: skip
async def test_a_refusal_has_the_word_for_its_reason(odd: Odd, error: dict[str, Any], code: str):
    assert code_of(await odd.prompt({"error": error})) == code


# ── going on ─────────────────────────────────────────────────────────────────────────────────


async def test_an_agent_that_cannot_load_goes_on_while_its_program_runs_and_says_so_after(odd: Odd):
    await odd.prompt({"flood": 1})
    assert code_of(await odd.prompt({"flood": 1})) is None
    await odd.prompt({"exit": 0})
    result = await odd.prompt({"flood": 1}, resume="odd-session")
    assert code_of(result) == "agent_failed"
    assert result.error is not None
    assert "cannot go on with a conversation once its program" in result.error.message
    assert result.error.hint == "Begin another session."


async def test_a_conversation_that_the_agent_does_not_know_has_no_record(odd: Odd):
    result = await odd.prompt({"flood": 1}, flags="--loads", resume="another")
    assert code_of(result) == "no_transcript"


async def test_what_a_conversation_costs_is_told_turn_by_turn(odd: Odd):
    def cost(amount: float) -> dict[str, Any]:
        told = {"amount": amount, "currency": "USD"}
        return {"update": {"sessionUpdate": "usage_update", "used": 1, "size": 9, "cost": told}}

    usage = {"inputTokens": 5, "outputTokens": 7, "totalTokens": 12, "cachedReadTokens": 3}
    first = await odd.prompt(cost(0.25), {"stop": "end_turn", "usage": usage})
    second = await odd.prompt(cost(0.75))
    assert (first.cost, second.cost) == (0.25, 0.5)
    assert (first.token_usage.input, first.token_usage.output) == (5, 7)
    assert first.token_usage.cache_read == 3


# ── questions ────────────────────────────────────────────────────────────────────────────────


def answering(**members: Any) -> Callable[[object], RequestPermissionResult]:
    return lambda _: RequestPermissionResult(**members)


async def test_a_yes_is_for_this_once_and_never_for_ever(odd: Odd):
    odd.side.decide = answering(approved=True)
    always = [
        {"optionId": "always", "name": "Always", "kind": "allow_always"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]
    once = [*always, {"optionId": "once", "name": "Yes", "kind": "allow_once"}]
    await odd.prompt({"ask": WRITE, "options": once})
    assert odd.text() == "chosen: once"
    await odd.prompt({"ask": WRITE, "options": always})
    assert odd.text() == "chosen: cancelled"


async def test_a_changed_input_is_a_no_since_the_agent_would_run_its_own(odd: Odd):
    odd.side.decide = answering(approved=True, updated_input={"file_path": "/tmp/b.txt"})
    await odd.prompt({"ask": WRITE})
    assert odd.text() == "chosen: n"
    (use,) = odd.blocks("tool_use")
    assert (use.status, use.reason) == (
        "denied", "this agent cannot run a tool with another input than its own",
    )  # fmt: skip


async def test_who_only_plans_is_told_no_without_a_question(odd: Odd):
    await odd.prompt({"ask": WRITE}, permission_mode="plan")
    assert (odd.text(), odd.side.questions) == ("chosen: n", [])
    (use,) = odd.blocks("tool_use")
    assert use.reason == "plan mode: nothing is changed"


async def test_a_tool_that_was_not_allowed_and_did_not_ask_fails_the_turn(odd: Odd):
    done = {"update": {"sessionUpdate": "tool_call", "status": "completed", **WRITE}}
    result = await odd.prompt(done, tools=["read"])
    assert code_of(result) == "agent_failed"
    assert "used edit without asking" in (result.error.message if result.error else "")


async def test_two_questions_at_once_are_both_asked(odd: Odd):
    run = odd.start({"ask": [WRITE, {**WRITE, "toolCallId": "c2"}]})
    await odd.side.until(lambda: len(odd.side.questions) == 2)
    assert [each.tool_use_id for each in odd.side.questions] == ["c1", "c2"]
    await odd.side.stop(odd.task)
    assert (await run).status == "cancelled"


async def test_a_file_is_written_for_the_agent_only_after_a_yes_to_it(odd: Odd):
    path = odd.cwd / "written.txt"
    write = {"call": "fs/write_text_file", "params": {"path": str(path), "content": "x"}}
    await odd.prompt(write)
    assert (odd.text(), path.exists()) == ("refused", False)
    odd.side.decide = answering(approved=True)
    await odd.prompt({"ask": {**WRITE, "locations": [{"path": str(path)}]}}, write)
    assert (odd.text(), path.read_text()) == ("chosen: ydone", "x")
    # The yes was for that turn.
    path.unlink()
    await odd.prompt(write)
    assert (odd.text(), path.exists()) == ("refused", False)


@pytest.mark.parametrize("method", ["fs/read_text_file", "terminal/create", "no/such/method"])
async def test_what_was_not_offered_is_refused(odd: Odd, method: str):
    await odd.prompt({"call": method, "params": {"path": "/etc/passwd", "command": "id"}})
    assert odd.text() == "refused"


async def test_an_adapter_that_may_bypass_permissions_changes_nothing_while_it_plans():
    need_agent(UNPRIVILEGED.agentic_tool)
    async with site_of(UNPRIVILEGED) as site, site.connected() as trial:
        trial.answer(approved=True)
        path = site.workspace / "planned.txt"
        script = [UNPRIVILEGED.write(path, "a\n")], [{"text": "That is the plan."}]
        await trial.prompt("plan it", *script, permission_mode="plan")
        assert not path.exists()

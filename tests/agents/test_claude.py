"""Claude Code: what is special about it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agor.protocol.api import Message
from agor.protocol.events import Log
from agor.protocol.mcp import McpServer
from agor.protocol.methods import RequestPermissionParams, RequestPermissionResult
from tests.agents.site import KEY, PATIENCE, Site, Trial, prompt_of
from tests.agents.subjects.base import Step, Subject
from tests.agents.subjects.claude import CLAUDE
from tests.agents.test_records import told_by_record, told_live
from tests.contract.waiting import until

MCP_SERVER = Path(__file__).with_name("mcp_server.py")


@pytest.fixture
def subject() -> Subject:
    """Only this one."""
    return CLAUDE


def tool(name: str, **tool_input: Any) -> Step:
    return {"tool": {"name": name, "input": tool_input}}


def delegate(*turns: list[Step]) -> Step:
    return tool(
        "Task",
        description="a part of the work",
        prompt=prompt_of("do your part", *turns),
        subagent_type="general-purpose",
    )


def of_kind(trial: Trial, kind: str) -> list[Message]:
    return [block for block in trial.blocks(trial.tasks[-1]) if block.kind == kind]


# ── sub-agents ───────────────────────────────────────────────────────────────────────────────


async def test_a_turn_ends_when_its_sub_agents_in_the_background_have(site: Site):
    path = site.workspace / "part.txt"
    used: Step = {"usage": {"input": 100}}
    part: list[list[Step]] = [
        [{"thinking": "hm"}, CLAUDE.write(path, "a\n"), used],
        [{"delay_ms": 500}, {"text": "My part."}, used],
    ]
    script: list[list[Step]] = [
        [delegate(*part), used],
        [{"text": "It is under way."}, used],
        [{"text": "All is done."}, used],
    ]
    async with site.connected() as trial:
        trial.answer(approved=True)
        result = await trial.prompt("delegate it", *script)
        assert (result.status, result.error) == ("completed", None)
        assert path.exists()
        blocks = trial.blocks()
        (start,) = [block for block in blocks if block.tool_name == "Task"]
        theirs = [block for block in blocks if block.parent_tool_use_id == start.tool_use_id]
        assert [(block.kind, block.text) for block in theirs if block.kind != "tool_result"] == [
            ("thinking", "hm"),
            ("tool_use", ""),
            ("text", "My part."),
        ]
        assert all(block.complete for block in blocks)
        own = [block.text for block in blocks if block.kind == "text" and block not in theirs]
        assert own == ["It is under way.", "All is done."]
        # The question names the call of the sub-agent, and what it used is counted.
        assert [each.tool_use_id for each in trial.side.questions] == [theirs[1].tool_use_id]
        assert result.token_usage.input == 5 * 100
        # The next prompt is not mixed up with anything of before.
        assert (await trial.prompt("and?", [{"text": "That was it."}])).status == "completed"
        assert trial.text() == "That was it."


async def test_the_record_tells_what_sub_agents_did(site: Site):
    part = [{"text": "one"}, CLAUDE.write(site.workspace / "a.txt", "a\n")], [{"text": "two"}]
    script = [delegate(*part)], [{"text": "three"}], [{"text": "four"}]

    def by_speaker(blocks: list[Any]) -> dict[str | None, list[Any]]:
        # While two speak at once, which of them was first is not certain.
        parents = {block.parent_tool_use_id for block in blocks}
        return {
            parent: [block for block in blocks if block.parent_tool_use_id == parent]
            for parent in parents
        }

    async with site.connected() as trial:
        trial.answer(approved=True)
        await trial.prompt("delegate it", *script)
        live = told_live(trial, [prompt_of("delegate it", *script)])
        assert len(by_speaker(live)) == 2
        assert by_speaker(await told_by_record(trial)) == by_speaker(live)


# ── keys and settings ────────────────────────────────────────────────────────────────────────


async def test_the_tools_of_the_agent_see_no_key(site: Site):
    looking = "touch x; env; cat /proc/$PPID/environ /proc/$PPID/cmdline | tr '\\0' '\\n'"
    server = McpServer(
        command=sys.executable, args=[str(MCP_SERVER)], env={"GREETING": "${GREETING_KEY}"}
    )
    keys = {CLAUDE.credential: KEY, "GREETING_KEY": "hello-from-the-vault"}
    async with site.connected(keys=keys) as trial:
        trial.answer(approved=True)
        script = [CLAUDE.run(looking)], [{"text": "I looked."}]
        await trial.prompt("look", *script, mcp_servers={"greeter": server})
        (seen,) = of_kind(trial, "tool_result")
        assert "ANTHROPIC_BASE_URL" in seen.text
        assert "--mcp-config" in seen.text
        assert KEY not in seen.text
        assert "hello-from-the-vault" not in seen.text


async def test_an_authorization_token_does_where_there_is_no_key(site: Site):
    async with site.connected(keys={"ANTHROPIC_AUTH_TOKEN": "token-of-the-tests-1234"}) as trial:
        result = await trial.prompt("hello", [{"text": "hello"}])
        assert (result.status, result.error) == ("completed", None)
    (call,) = [call for call in site.model.requests if call.path == "/v1/messages"]
    assert call.headers["authorization"].endswith("1234")
    assert "x-api-key" not in call.headers


async def test_another_key_takes_effect_with_the_next_prompt(site: Site):
    async with site.connected() as trial:
        await trial.prompt("My name is Rosalind.", [{"text": "Pleased."}])
        before = site.programs()
        trial.side.keys = {CLAUDE.credential: "sk-ant-another-key-9999"}
        result = await trial.prompt("What is my name?", [{"text": "Rosalind."}])
        assert (result.status, trial.text()) == ("completed", "Rosalind.")
        assert not site.programs() & before
    last = [call for call in site.model.requests if b"What is my name?" in call.body][-1]
    assert last.headers["x-api-key"].endswith("9999")
    assert b"My name is Rosalind." in last.body


async def test_claude_md_counts_and_settings_do_not(site: Site):
    """Whoever may change a file of the repository would decide what runs without a question."""
    ran = site.workspace / "hook-ran"
    settings = {
        "permissions": {"allow": ["Bash", "Write"]},
        "hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": f"touch {ran}"}]}]},
        "env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"},
    }
    for folder in (site.workspace, site.home):
        (folder / ".claude").mkdir()
        (folder / ".claude" / "settings.json").write_text(json.dumps(settings))
    (site.workspace / "CLAUDE.md").write_text("Mind the gap.\n@more.md\n")
    (site.workspace / "more.md").write_text("Stand clear of the doors.\n")
    (site.home / ".claude" / "CLAUDE.md").write_text("Have a nice day.\n")
    path = site.workspace / "never.txt"
    async with site.connected() as trial:
        trial.answer(approved=False, reason="no")
        script = [CLAUDE.write(path, "a")], [{"text": "Well."}]
        result = await trial.prompt("write", *script)
        assert (result.status, result.error) == ("completed", None)
        assert len(trial.side.questions) == 1
        assert not path.exists()
        assert not ran.exists()
    body = site.model.requests[0].body
    assert b"Mind the gap." in body
    assert b"Stand clear of the doors." in body
    assert b"Have a nice day." in body


# ── questions ────────────────────────────────────────────────────────────────────────────────


async def test_what_only_reads_is_shown_without_a_question(site: Site):
    (site.workspace / "here.txt").write_text("found\n")
    reading = [CLAUDE.run("cat here.txt"), tool("Read", file_path=f"{site.workspace}/here.txt")]
    async with site.connected() as trial:
        await trial.prompt("look", reading, [{"text": "I see."}])
        assert trial.side.questions == []
        uses = of_kind(trial, "tool_use")
        assert [(use.tool_name, use.status) for use in uses] == [
            ("Bash", "completed"),
            ("Read", "completed"),
        ]


async def test_a_prompt_that_names_its_tools_does_not_even_read_with_another(site: Site):
    (site.workspace / "here.txt").write_text("found\n")
    async with site.connected() as trial:
        script = [CLAUDE.run("cat here.txt")], [{"text": "Well."}]
        await trial.prompt("look", *script, tools=["Read"])
        (use,) = of_kind(trial, "tool_use")
        assert (use.status, use.reason) == ("denied", "this prompt may use only: Read")
        (result,) = of_kind(trial, "tool_result")
        assert "found" not in result.text


@pytest.mark.parametrize(
    ("name", "tool_input"),
    [
        ("EnterWorktree", {"name": "elsewhere"}),
        ("SendMessage", {"to": "another", "summary": "hello", "message": "hello"}),
        ("ScheduleWakeup", {"delaySeconds": 60, "reason": "later", "prompt": "go on"}),
    ],
)
async def test_what_is_not_for_an_agent_to_do_is_not_offered(
    site: Site, name: str, tool_input: dict[str, Any]
):
    """None of these would be asked about."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for arguments in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *arguments], cwd=site.workspace, check=True)
    before = set(site.workspace.iterdir())
    async with site.connected() as trial:
        await trial.prompt(
            "try", [{"tool": {"name": name, "input": tool_input}}], [{"text": "Ah."}]
        )
        (result,) = of_kind(trial, "tool_result")
        assert result.is_error
        assert "No such tool" in result.text
        assert set(site.workspace.iterdir()) == before


async def test_what_the_agent_asks_its_user_is_answered_by_who_decides(site: Site):
    question = {
        "question": "Which colour?",
        "header": "Colour",
        "options": [
            {"label": "Red", "description": "like a rose"},
            {"label": "Blue", "description": "like the sea"},
        ],
        "multiSelect": False,
    }

    def choose(asked: RequestPermissionParams) -> RequestPermissionResult:
        assert asked.tool_name == "AskUserQuestion"
        answers = {"Which colour?": "Blue"}
        return RequestPermissionResult(
            approved=True, updated_input={**asked.tool_input, "answers": answers}
        )

    async with site.connected() as trial:
        trial.side.decide = choose
        script = [tool("AskUserQuestion", questions=[question])], [{"text": "Blue it is."}]
        result = await trial.prompt("paint", *script)
        assert (result.status, result.error) == ("completed", None)
        (answer,) = of_kind(trial, "tool_result")
        assert "Blue" in answer.text


async def test_a_plan_that_somebody_approves_is_carried_out_step_by_step(site: Site):
    path = site.workspace / "done.txt"
    async with site.connected() as trial:
        trial.answer(approved=True)
        script = (
            [CLAUDE.write(path, "too early\n")],
            [tool("ExitPlanMode", plan="Write a file.")],
            [CLAUDE.write(path, "a\n")],
            [{"text": "Done."}],
        )
        await trial.prompt("plan it", *script, permission_mode="plan")
        asked = [each.tool_name for each in trial.side.questions]
        assert asked == ["ExitPlanMode", "Write"]
        assert path.read_text() == "a\n"
        early = of_kind(trial, "tool_use")[0]
        assert (early.status, early.reason) == ("denied", "plan mode: nothing is changed")
        # The next prompt has its own mode again.
        again = site.workspace / "again.txt"
        more = [CLAUDE.write(again, "a\n")], [{"text": "That is the plan."}]
        await trial.prompt("plan more", *more, permission_mode="plan")
        assert not again.exists()


# ── what comes back ──────────────────────────────────────────────────────────────────────────


async def test_what_was_used_is_told_for_each_prompt_by_itself(site: Site):
    used: Step = {"usage": {"input": 1000, "output": 100, "cache_read": 10, "cache_write": 5}}
    async with site.connected() as trial:
        first = await trial.prompt("one", [{"text": "one"}, used])
        second = await trial.prompt("two", [{"text": "two"}, used])
    async with site.connected() as after:
        after.resume = trial.resume
        third = await after.prompt("three", [{"text": "three"}, used])
    for result in (first, second, third):
        usage = result.token_usage
        assert (usage.input, usage.output) == (1000, 100)
        assert (usage.cache_read, usage.cache_write) == (10, 5)
    assert first.cost
    assert second.cost == pytest.approx(first.cost)
    assert third.cost == pytest.approx(first.cost)


async def test_a_file_of_megabytes_is_written(site: Site):
    path = site.workspace / "large.txt"
    text = "0123456789abcde\n" * 120_000
    async with site.connected() as trial:
        trial.answer(approved=True)
        result = await trial.prompt("write", [CLAUDE.write(path, text)], [{"text": "Done."}])
        assert (result.status, result.error) == ("completed", None)
        assert path.read_text() == text


async def test_news_of_a_command_in_the_background_disturb_no_later_prompt(site: Site):
    go = site.workspace / "go"
    os.mkfifo(go)
    waiting = tool("Bash", command=f"cat {go} > /dev/null; echo over", run_in_background=True)
    script = [waiting], [{"text": "It runs."}], [{"text": "It has ended."}]
    async with site.connected() as trial:
        trial.answer(approved=True)
        assert (await trial.prompt("begin", *script)).status == "completed"
        assert trial.text() == "It runs."
        told = trial.side.of_kind(trial.tasks[-1], Log)
        assert any("in the background" in each.message for each in told)
        go.write_text("now\n")
        # Claude takes up the news by itself.
        await site.model.wait_for(3, lambda request: request.path == "/v1/messages")
        result = await trial.prompt("and now?", [{"text": "Here I am."}])
        assert result.status == "completed"
        assert trial.text().endswith("Here I am.")


async def test_a_command_of_claudes_own_is_answered_by_claude_itself(site: Site):
    async with site.connected() as trial:
        await trial.prompt("hello", [{"text": "hello"}])
        run = trial.side.start(
            "/context",
            agentic_tool="claude-code",
            cwd=str(site.workspace),
            model=CLAUDE.model,
            resume=trial.resume,
        )
        trial.tasks.append(run.get_name())
        assert (await run).status == "completed"
        (printed,) = of_kind(trial, "system")
        assert "Context Usage" in printed.text
        live = told_live(trial, [prompt_of("hello", [{"text": "hello"}]), "/context"])
        assert await told_by_record(trial) == live


async def test_what_was_stopped_stands_in_the_record_as_it_was_told(site: Site):
    begun = site.workspace / "begun"
    script = [{"text": "I run it."}, CLAUDE.run(f"touch {begun}; sleep 1000")], [{"text": "never"}]
    async with site.connected() as trial:
        trial.answer(approved=True)
        run = trial.start("run it", *script)
        await until(begun.exists, PATIENCE)
        await trial.side.stop(run.get_name())
        assert (await run).status == "cancelled"
        live = told_live(trial, [prompt_of("run it", *script)])
        assert [block.kind for block in live[1:]] == ["text", "tool_use", "tool_result"]
        assert await told_by_record(trial) == live


async def test_a_conversation_that_is_not_here_is_not_begun_anew_in_silence(site: Site):
    async with site.connected() as trial:
        trial.resume = "0190c0de-0000-4000-8000-000000000000"
        result = await trial.prompt("hello", [{"text": "hello"}])
        assert result.error is not None
        assert (result.status, result.error.code) == ("failed", "no_transcript")
        assert site.processes() == {}


async def test_what_was_half_said_when_the_program_died_is_told_as_such(site: Site):
    async with site.connected() as trial:
        words = " ".join(["word"] * 600)
        run = trial.start("say it", [{"pace_ms": 100}, {"text": words}])
        await trial.side.until(lambda: "word word" in trial.side.text(run.get_name()))
        site.kill_programs()
        assert (await run).status == "failed"
        (half,) = of_kind(trial, "text")
        assert words.startswith(half.text)
        assert (half.complete, half.is_error) == (True, True)


# ── faults ───────────────────────────────────────────────────────────────────────────────────


async def test_a_key_that_is_not_taken_is_tried_once(site: Site):
    async with site.connected() as trial:
        result = await trial.prompt("hello", [{"error": {"kind": "bad_key", "retry": True}}])
        assert result.error is not None
        assert (result.status, result.error.code) == ("failed", "bad_api_key")
        assert result.error.hint == "Set another with `agor credential set ANTHROPIC_API_KEY`."
    assert len([call for call in site.model.requests if call.path == "/v1/messages"]) == 1


async def test_who_waits_is_told_that_claude_tries_again(site: Site):
    async with site.connected() as trial:
        fault = {"error": "overloaded", "times": 1}
        await trial.prompt("try", [fault, {"text": "Here I am."}])
        told = [each.message for each in trial.side.of_kind(trial.tasks[-1], Log)]
        assert any("overloaded" in words and "attempt 1 of" in words for words in told)


async def test_an_answer_that_was_cut_off_is_asked_for_again(site: Site):
    script: list[Step] = [{"text": "half of "}, {"cut": True, "times": 1}, {"text": "it all"}]
    async with site.connected() as trial:
        result = await trial.prompt("say it", script)
        assert (result.status, result.error) == ("completed", None)
        assert [block.text for block in of_kind(trial, "text")][-2:] == ["half of ", "it all"]
        # What came before the cut stays, as in Claude's own record. It records no half a sentence,
        # though, which it has if the cut overtook a word.
        live = told_live(trial, [prompt_of("say it", script)])
        if live[1].text != "half of ":
            assert "half of ".startswith(live[1].text or "")
            del live[1]
        assert await told_by_record(trial) == live


async def test_half_a_character_breaks_nothing(site: Site):
    """Claude cuts texts in UTF-16, in the middle of a character if it must."""
    lone = r"printf '\xf0\x9f\x91\x8b%.0s' $(seq 20000) && touch x"
    async with site.connected() as trial:
        trial.answer(approved=True)
        result = await trial.prompt("wave", [CLAUDE.run(lone)], [{"text": "Hello."}])
        assert (result.status, result.error) == ("completed", None)

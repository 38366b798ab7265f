"""The contract of agents: tools are used once somebody says yes. Every agent passes it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from agor.protocol.api import Message
from agor.protocol.mcp import McpServer
from agor.protocol.methods import RequestPermissionParams, RequestPermissionResult
from tests.agents.site import Site, Trial

_MCP_SERVER = Path(__file__).with_name("mcp_server.py")


def uses(trial: Trial) -> list[Message]:
    return [block for block in trial.blocks(trial.tasks[-1]) if block.kind == "tool_use"]


def results(trial: Trial) -> list[Message]:
    return [block for block in trial.blocks(trial.tasks[-1]) if block.kind == "tool_result"]


async def test_a_file_is_written_once_somebody_says_yes(site: Site):
    path = site.workspace / "new.txt"
    seen: list[bool] = []

    def allow(question: RequestPermissionParams) -> RequestPermissionResult:
        seen.append(path.exists())
        assert question.tool_name == site.subject.write_tool
        assert site.subject.written_path(question.tool_input) == str(path)
        return RequestPermissionResult(approved=True)

    async with site.connected() as trial:
        trial.side.decide = allow
        result = await trial.prompt(
            "write", [site.subject.write(path, "hello\n")], [{"text": "Done."}]
        )
        assert (result.status, result.error) == ("completed", None)
        assert seen == [False]
        assert path.read_text().strip() == "hello"
        (use,) = uses(trial)
        assert (use.tool_name, use.status, use.is_error) == (
            site.subject.write_tool, "completed", False,
        )  # fmt: skip
        assert [each.tool_use_id for each in results(trial)] == [use.tool_use_id]
        assert trial.side.questions[0].tool_use_id == use.tool_use_id
        assert trial.text().endswith("Done.")


async def test_a_command_that_was_denied_does_not_run_and_the_reason_is_told(site: Site):
    path = site.workspace / "denied.txt"
    script = [site.subject.run(f"touch {path}")], [{"text": "Then not."}]
    async with site.connected() as trial:
        trial.answer(approved=False, reason="not on a Friday")
        result = await trial.prompt("touch it", *script)
        assert result.status == "completed", result.error
        assert not path.exists()
        (use,) = uses(trial)
        assert (use.tool_name, use.status, use.reason) == (
            site.subject.run_tool, "denied", "not on a Friday",
        )  # fmt: skip
        if site.subject.goes_on_after_deny:
            assert trial.text().endswith("Then not.")
        if site.subject.tells_reason:
            assert any(b"not on a Friday" in call.body for call in site.model.requests)
        # The session goes on.
        assert (await trial.prompt("still there?", [{"text": "Yes."}])).status == "completed"
        assert trial.text() == "Yes."


async def test_what_a_command_prints_is_told_and_reaches_the_model(site: Site):
    async with site.connected() as trial:
        trial.answer(approved=True)
        script = [site.subject.run("printf it-is-%d 42")], [{"text": "I see."}]
        assert (await trial.prompt("run it", *script)).status == "completed"
        assert "it-is-42" in "".join(block.text for block in results(trial))
    assert any(b"it-is-42" in call.body for call in site.model.requests)


async def test_somebody_who_answers_can_change_what_is_written(site: Site):
    rewrite = site.subject.rewrite
    if rewrite is None:
        pytest.skip(f"{site.subject.agentic_tool} takes no other input")
    path = site.workspace / "changed.txt"

    def decide(question: RequestPermissionParams) -> RequestPermissionResult:
        return RequestPermissionResult(
            approved=True, updated_input=rewrite(question.tool_input, "theirs\n")
        )

    async with site.connected() as trial:
        trial.side.decide = decide
        await trial.prompt("write", [site.subject.write(path, "ours\n")], [{"text": "Done."}])
        assert path.read_text() == "theirs\n"
        (use,) = uses(trial)
        assert use.tool_input == rewrite(trial.side.questions[0].tool_input, "theirs\n")


async def test_a_prompt_that_names_its_tools_gets_no_other(site: Site):
    path = site.workspace / "not-allowed.txt"
    async with site.connected() as trial:
        trial.answer(approved=True)
        script = [site.subject.run(f"touch {path}")], [{"text": "Well."}]
        await trial.prompt("touch it", *script, tools=[site.subject.write_tool])
        assert not path.exists()
        assert trial.side.questions == []
        allowed = site.workspace / "allowed.txt"
        await trial.prompt(
            "write", [site.subject.write(allowed, "a\n")], [{"text": "Done."}],
            tools=[site.subject.write_tool],
        )  # fmt: skip
        assert allowed.exists()


async def test_who_only_plans_changes_nothing_whoever_says_yes(site: Site):
    path = site.workspace / "planned.txt"
    async with site.connected() as trial:
        trial.answer(approved=True)
        script = [site.subject.write(path, "a\n")], [{"text": "That is the plan."}]
        await trial.prompt("plan it", *script, permission_mode="plan")
        assert not path.exists()
        # And back: the mode is the prompt's own.
        await trial.prompt("now do it", [site.subject.write(path, "a\n")], [{"text": "Done."}])
        assert path.exists()


async def test_the_tool_of_an_mcp_server_is_used_with_its_credential_put_in(site: Site):
    server = McpServer(
        command=sys.executable, args=[str(_MCP_SERVER)], env={"GREETING": "${GREETING_KEY}"}
    )
    script = [site.subject.call_mcp("greeter", "greet", {"name": "Ada"})], [{"text": "Done."}]
    keys = {site.subject.credential: "sk-0123456789abcdef", "GREETING_KEY": "hello-from-the-vault"}
    async with site.connected(keys=keys) as trial:
        trial.answer(approved=True)
        servers: dict[str, Any] = {"greeter": server}
        result = await trial.prompt("greet her", *script, mcp_servers=servers)
        assert (result.status, result.error) == ("completed", None)
        (use,) = uses(trial)
        assert "greet" in (use.tool_name or "")
        assert use.status == "completed"
        told = "".join(block.text for block in results(trial))
        assert "hello-from-the-vault, Ada" in told
        assert len(trial.side.questions) == 1

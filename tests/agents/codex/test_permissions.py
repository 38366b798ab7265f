"""Permissions of Codex: plans, questions, changed input, tools of MCP servers."""

from __future__ import annotations

from pathlib import Path

import msgspec

from agor.protocol.events import Log
from agor.protocol.mcp import McpServer
from agor.protocol.methods import RequestPermissionResult
from tests.agents.codex.steps import told_to_model, tool, uses
from tests.agents.site import Site, prompt_of
from tests.agents.subjects.codex import CODEX
from tests.agents.test_records import told_by_record, told_live


async def test_who_only_plans_runs_commands_that_can_change_nothing_and_is_not_asked(site: Site):
    path = site.workspace / "planned.txt"
    escalated = tool(
        "exec_command", cmd=f"touch {path}", sandbox_permissions="require_escalated",
        justification="may I?",
    )  # fmt: skip
    async with site.connected() as trial:
        trial.answer(approved=True)
        result = await trial.prompt(
            "plan",
            [CODEX.run(f"touch {path}")],
            [escalated],
            [CODEX.write(path, "a\n")],
            [{"text": "<proposed_plan>\nFirst this.\n</proposed_plan>\n"}],
            permission_mode="plan",
        )  # fmt: skip
        assert result.status == "completed"
        assert not path.exists()
        assert trial.side.questions == []
        assert trial.text() == "First this.\n"


async def test_a_question_of_the_model_is_answered_by_a_person(site: Site):
    colour = {"id": "colour", "header": "Colour", "question": "Which?"}
    options = [{"label": "Blue", "description": "b"}, {"label": "Red", "description": "r"}]
    ask = tool("request_user_input", questions=[colour | {"options": options}])
    turns = ([ask], [{"text": "Blue, then."}])
    async with site.connected() as trial:
        trial.side.decide = lambda question: RequestPermissionResult(
            approved=True, updated_input=question.tool_input | {"answers": {"Which?": "Blue"}}
        )
        await trial.prompt("ask me", *turns, permission_mode="plan")
        (question,) = trial.side.questions
        assert question.tool_input["questions"] == [colour | {"options": options}]
        assert '{\\"answers\\":[\\"Blue\\"]}' in told_to_model(site)
        live = told_live(trial, [prompt_of("ask me", *turns)])
        # Codex keeps the question without the answer that a person put into it.
        assert live[1].tool_input == question.tool_input | {"answers": {"Which?": "Blue"}}
        live[1] = msgspec.structs.replace(live[1], tool_input=question.tool_input)
        assert await told_by_record(trial) == live


async def test_a_changed_command_is_not_run_and_the_model_hears_of_the_change(site: Site):
    theirs, ours = site.workspace / "theirs", site.workspace / "ours"
    async with site.connected() as trial:
        trial.side.decide = lambda question: RequestPermissionResult(
            approved=True, updated_input=question.tool_input | {"command": f"touch {theirs}"}
        )
        await trial.prompt("touch", [CODEX.run(f"touch {ours}")], [{"text": "I see."}])
        assert not ours.exists()
        (use,) = uses(trial)
        assert use.status == "denied"
        assert f"touch {theirs}" in told_to_model(site)


async def test_a_tool_of_an_mcp_server_that_was_denied_is_not_called(site: Site):
    server = Path(__file__).parents[1] / "mcp_server.py"
    servers = {
        "greeter": McpServer(command="python3", args=[str(server)], env={"GREETING": "sec-ret"})
    }
    turns = ([CODEX.call_mcp("greeter", "greet", {"name": "Ada"})], [{"text": "Then not."}])
    async with site.connected() as trial:
        trial.answer(approved=False, reason="no greetings")
        await trial.prompt("greet", *turns, mcp_servers=servers)
        (use,) = uses(trial)
        assert (use.tool_name, use.status) == ("mcp__greeter__greet", "denied")
        assert "no greetings" in told_to_model(site)
        assert "sec-ret" not in told_to_model(site)
        assert all("sec-ret" not in words for words in site.processes().values())
        assert await told_by_record(trial) == told_live(trial, [prompt_of("greet", *turns)])


async def test_tools_that_are_not_asked_about_are_taken_away_if_a_prompt_does_not_name_them(
    site: Site,
):
    async with site.connected() as trial:
        await trial.prompt("hello", [{"text": "hello"}])
        await trial.prompt("hello", [{"text": "hello"}], tools=["fileChange", "imageView"])
    names = [
        {each.get("name", each["type"]) for each in call.json["tools"]}
        for call in site.model.requests
    ]
    assert names[0] >= {"view_image", "web_search"}
    assert "view_image" in names[1]
    assert "web_search" not in names[1]


async def test_who_only_plans_runs_no_command_that_the_prompt_does_not_name(site: Site):
    async with site.connected() as trial:
        trial.answer(approved=True)
        script = [CODEX.run("echo no")], [{"text": "Hm."}]
        await trial.prompt("plan", *script, permission_mode="plan", tools=["fileChange"])
        assert trial.side.questions == []
        (use,) = uses(trial)
        assert (use.status, use.reason) == ("denied", "plan mode: nothing is changed")


async def test_an_mcp_server_that_does_not_start_is_told_and_the_turn_goes_on(site: Site):
    servers = {"broken": McpServer(command="false")}
    async with site.connected() as trial:
        result = await trial.prompt("hello", [{"text": "hello"}], mcp_servers=servers)
        assert result.status == "completed"
        logs = [log.message for log in trial.side.of_kind(trial.tasks[0], Log)]
        assert any("the MCP server broken did not start" in message for message in logs)


async def test_a_transport_that_codex_does_not_speak_is_said_at_once(site: Site):
    async with site.connected() as trial:
        servers = {"old": McpServer(transport="sse", url="http://127.0.0.1:1/sse")}
        result = await trial.prompt("hello", [{"text": "hello"}], mcp_servers=servers)
        assert result.error is not None
        assert "does not speak sse" in result.error.message
        assert site.processes() == {}

"""Models of Codex that write scripts and have sub-agents: every call is asked about and told."""

from __future__ import annotations

from agor.protocol.methods import RequestPermissionParams, RequestPermissionResult
from tests.agents.codex.steps import SCRIPTING, run_in_script, told_to_model, uses
from tests.agents.site import KEY, Site, prompt_of
from tests.agents.subjects.base import Step
from tests.agents.test_records import told_by_record, told_live


async def test_commands_of_a_script_are_asked_about_and_told_one_by_one(site: Site):
    denied = site.workspace / "b.txt"

    def decide(question: RequestPermissionParams) -> RequestPermissionResult:
        no = "b.txt" in str(question.tool_input)
        return RequestPermissionResult(approved=not no, reason="not that one" if no else None)

    turns = (
        [{"text": "one"}, run_in_script("echo seven")],
        [run_in_script(f"touch {denied}")],
        [{"text": "two"}],
    )
    async with site.connected() as trial:
        trial.side.decide = decide
        result = await trial.prompt("go", *turns, model=SCRIPTING)
        assert (result.status, result.error) == ("completed", None)
        assert [((use.tool_input or {})["command"], use.status) for use in uses(trial)] == [
            ("echo seven", "completed"),
            (f"touch {denied}", "denied"),
        ]
        assert len(trial.side.questions) == 2
        assert not denied.exists()
        assert "not that one" in told_to_model(site)
        assert await told_by_record(trial) == told_live(trial, [prompt_of("go", *turns)])


async def test_what_a_sub_agent_does_is_told_under_the_call_that_began_it(site: Site):
    used = {"usage": {"input": 1, "output": 10}}
    work = prompt_of(
        "work",
        [used, {"text": "I work."}, run_in_script("echo deep")],
        [used, {"text": "It is 42."}],
    )
    turns: tuple[list[Step], ...] = (
        [used, _collaborate("spawn_agent", task_name="a", message=work, fork_turns="none")],
        [used, _collaborate("wait_agent", timeout_ms=60_000)],
        [used, {"text": "Done."}],
    )
    async with site.connected() as trial:
        trial.answer(approved=True)
        result = await trial.prompt("have it done", *turns, model=SCRIPTING)
        assert (result.status, result.error) == ("completed", None)
        assert [each.tool_input["command"] for each in trial.side.questions] == ["echo deep"]
        spawned, command = uses(trial)
        assert spawned.tool_name == "spawnAgent"
        assert command.parent_tool_use_id == spawned.tool_use_id
        inside = [b for b in trial.blocks() if b.parent_tool_use_id == spawned.tool_use_id]
        assert [(b.kind, b.text) for b in inside] == [
            ("text", "I work."), ("tool_use", ""), ("tool_result", "deep\n"), ("text", "It is 42."),
        ]  # fmt: skip
        results = [b for b in trial.blocks() if b.kind == "tool_result"]
        assert [b.text for b in results if b.tool_use_id == spawned.tool_use_id] == ["It is 42."]
        # Its tokens are the task's as well.
        assert result.token_usage.output == 50
        live = told_live(trial, [prompt_of("have it done", *turns)])
        assert await told_by_record(trial) == live
    for call in site.model.requests:
        assert call.headers["authorization"].endswith(KEY[-4:])


async def test_a_task_ends_when_its_sub_agents_have(site: Site):
    work = prompt_of("work", [{"delay_ms": 1500}, {"text": "It is 42."}])
    turns: tuple[list[Step], ...] = (
        [_collaborate("spawn_agent", task_name="a", message=work, fork_turns="none")],
        [{"text": "It is on its way."}],
    )
    async with site.connected() as trial:
        result = await trial.prompt("have it done", *turns, model=SCRIPTING)
        assert (result.status, result.error) == ("completed", None)
        (spawned,) = uses(trial)
        told = [(b.kind, b.text, b.parent_tool_use_id) for b in trial.blocks()]
        assert told == [
            ("tool_use", "", None),
            ("text", "It is on its way.", None),
            ("text", "It is 42.", spawned.tool_use_id),
            ("tool_result", "It is 42.", None),
        ]
        live = told_live(trial, [prompt_of("have it done", *turns)])
        assert await told_by_record(trial) == live
        # A next turn of the agent's own is not begun by the answer.
        assert (await trial.prompt("well?", [{"text": "42."}])).status == "completed"
        assert trial.text() == "42."


def _collaborate(name: str, **given: object) -> Step:
    return {"tool": {"name": name, "namespace": "collaboration", "input": given}}

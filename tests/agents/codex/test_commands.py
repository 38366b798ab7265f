"""Commands that Codex runs: what they print, what they see, what can be typed into them."""

from __future__ import annotations

import re

from agor.protocol.events import BlockDelta
from tests.agents.codex.steps import result_text, told_to_model, tool, uses
from tests.agents.site import KEY, PATIENCE, Site, prompt_of
from tests.agents.subjects.codex import CODEX
from tests.agents.test_records import told_by_record, told_live
from tests.contract.waiting import until


async def test_what_a_command_prints_is_told_while_it_runs(site: Site):
    go = site.workspace / "go"
    command = f"sleep 1; echo first; until [ -e {go} ]; do sleep 0.05; done; echo second"
    async with site.connected() as trial:
        trial.answer(approved=True)
        run = trial.start("run", [CODEX.run(command)], [{"text": "Done."}])
        await trial.side.until(lambda: "first" in trial.side.text(run.get_name()))
        go.touch()
        assert (await run).status == "completed"
        assert result_text(trial) == "first\nsecond\n"
        deltas = [delta.text for delta in trial.side.of_kind(run.get_name(), BlockDelta)]
        assert deltas[:2] == ["first\n", "second\n"]


async def test_what_a_command_prints_at_once_is_not_lost_when_it_runs_on(site: Site):
    async with site.connected() as trial:
        trial.answer(approved=True)
        await trial.prompt(
            "run", [CODEX.run("echo early; sleep 1; echo late")], [{"text": "Done."}]
        )
        assert sorted(set(result_text(trial).split()) & {"early", "late"}) == ["early", "late"]


async def test_calls_side_by_side_are_told_by_the_record_as_they_were_live(site: Site):
    both = [{"thinking": "hm"}, {"text": "Two."}, CODEX.run("echo 1"), CODEX.run("sleep 1; echo 2")]
    turns = (both, [CODEX.write(site.workspace / "a", "a\n")], [{"text": "Done."}])
    async with site.connected() as trial:
        trial.answer(approved=True)
        await trial.prompt("run", *turns)
        assert [use.tool_name for use in uses(trial)] == ["commandExecution"] * 2 + ["fileChange"]
        assert await told_by_record(trial) == told_live(trial, [prompt_of("run", *turns)])


async def test_a_command_that_fails_says_so(site: Site):
    async with site.connected() as trial:
        trial.answer(approved=True)
        await trial.prompt("run", [CODEX.run("echo oh; exit 3")], [{"text": "Done."}])
        (use,) = uses(trial)
        assert (use.status, use.reason, use.is_error) == ("failed", "exit code 3", True)


async def test_commands_cannot_find_the_key_in_the_environment_of_any_program(site: Site):
    ours = f"grep -lz 'HOME={site.home}' /proc/[0-9]*/environ 2>/dev/null"
    async with site.connected() as trial:
        trial.answer(approved=True)
        command = f"{ours} | wc -l; {ours} | xargs cat 2>/dev/null | grep -c {KEY}"
        await trial.prompt("look", [CODEX.run(command)], [{"text": "Done."}])
        programs, keys = map(int, result_text(trial).split())
        # That of the agent and that of the command itself, at least.
        assert programs >= 2
        assert keys == 0


async def test_nothing_can_be_typed_into_a_shell_that_was_allowed_once(site: Site):
    path = site.workspace / "typed.txt"
    async with site.connected() as trial:
        trial.answer(approved=True)
        await trial.prompt("shell", [tool("exec_command", cmd="bash", tty=True)], [{"text": "Hm."}])
        assert "TTY execution is disabled" in told_to_model(site)
        # Without a terminal there is a session as well, but its input is closed.
        waiting = tool("exec_command", cmd=f"cat > {path}; sleep 1000", yield_time_ms=250)
        await trial.prompt("wait", [waiting], [{"text": "Ok."}])
        session = int(re.findall(r"session ID (\d+)", told_to_model(site))[-1])
        typing = tool("write_stdin", session_id=session, chars="typed\n")
        await trial.prompt("type", [typing], [{"text": "Ok."}])
        assert "stdin is closed" in told_to_model(site)
        assert path.read_text() == ""
    await site.no_process_left()


async def test_a_command_that_runs_on_is_left_when_its_turn_is_over(site: Site):
    slow = tool("exec_command", cmd="echo begun; sleep 1000", yield_time_ms=250)
    async with site.connected() as trial:
        trial.answer(approved=True)
        result = await trial.prompt("serve", [slow], [{"text": "It runs."}])
        assert result.status == "completed"
        (use,) = uses(trial)
        assert (use.status, use.reason) == ("completed", "still running in the background")
        assert all(block.complete for block in trial.blocks())
        assert any("sleep 1000" in words for words in site.processes().values())
    await site.no_process_left()


async def test_a_stop_reaches_what_a_command_put_into_a_session_of_its_own(site: Site):
    begun = site.workspace / "begun"
    command = f"(setsid sleep 1000 &); touch {begun}; sleep 1000; echo after"
    async with site.connected() as trial:
        trial.answer(approved=True)
        run = trial.start("wait", [CODEX.run(command)], [{"text": "never"}])
        await until(begun.exists, PATIENCE)
        assert (await trial.side.stop(run.get_name())).stopped
        await site.no_process_left()

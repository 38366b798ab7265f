"""The contract of agents: stops, deaths and faults of providers. Every agent passes it."""

from __future__ import annotations

import pytest

from tests.agents.site import KEY, PATIENCE, Site
from tests.agents.subjects.base import Step
from tests.contract.waiting import until
from tests.integration.processes import command_line_and_environment

#: Each fault of the scripted model, and the word for it.
FAULTS = {
    "bad_key": "bad_api_key",
    "rate_limit": "rate_limited",
    "overloaded": "provider_overloaded",
    "server_error": "provider_failed",
    "context_full": "context_full",
    "quota": "quota_exhausted",
    "not_found": "no_such_model",
}


async def test_a_stop_in_the_middle_of_a_tool_leaves_nothing_running(site: Site):
    begun = site.workspace / "begun"
    command = f"echo here > {begun}; sleep 1000; echo after"
    async with site.connected() as trial:
        trial.answer(approved=True)
        run = trial.start("wait", [site.subject.run(command)], [{"text": "never"}])
        await until(begun.exists, PATIENCE)
        assert any("sleep 1000" in words for words in site.processes().values())
        assert (await trial.side.stop(run.get_name())).stopped
        assert (await run).status == "cancelled"
        await site.no_process_left()
        # The conversation goes on, in a new program.
        trial.resume = trial.resume or (await run).agent_session_id
        result = await trial.prompt("and now?", [{"text": "On we go."}])
        assert (result.status, trial.text()) == ("completed", "On we go.")


async def test_a_stop_while_a_question_is_open_withdraws_it(site: Site):
    async with site.connected() as trial:
        # What only reads is not asked about by every agent.
        command = f"touch {site.workspace / 'never.txt'}"
        run = trial.start("wait", [site.subject.run(command)], [{"text": "never"}])
        await trial.asked()
        assert (await trial.side.stop(run.get_name())).stopped
        assert (await run).status == "cancelled"
        await trial.side.until(lambda: trial.side.withdrawn)
        await site.no_process_left()


async def test_a_model_that_says_nothing_more_can_be_stopped(site: Site):
    async with site.connected() as trial:
        run = trial.start("stall", [{"text": "I was about to"}, {"stall": True}])
        await trial.side.until(lambda: trial.side.text(run.get_name()))
        assert (await trial.side.stop(run.get_name())).stopped
        assert (await run).status == "cancelled"
        await site.no_process_left()


@pytest.mark.parametrize("fault", sorted(FAULTS))
async def test_a_fault_of_the_provider_has_its_own_word(site: Site, fault: str):
    # In the provider's own words: they are all that tells some faults from others. Some agents
    # would try again for longer than a test can wait, unless the provider tells them not to, or
    # not to wait.
    patient = fault in site.subject.patient_with
    told = {"retry": False, "retry_after": 0} if patient else {}
    error = {"kind": fault, **told}
    async with site.connected() as trial:
        result = await trial.prompt("fail", [{"error": error}])
        assert result.status == "failed"
        assert result.error is not None
        assert (result.error.code, bool(result.error.hint)) == (FAULTS[fault], True)
        assert KEY not in trial.side.wire_text()


async def test_a_fault_that_passes_is_no_failure(site: Site):
    async with site.connected() as trial:
        result = await trial.prompt(
            "try again", [{"error": "overloaded", "times": 1}, {"text": "Here I am."}]
        )
        assert (result.status, trial.text()) == ("completed", "Here I am.")


async def test_an_answer_that_is_cut_off_is_asked_for_again_or_has_failed(site: Site):
    script: list[Step] = [{"text": "Half of "}, {"cut": True, "times": 1}, {"text": "all of it."}]
    async with site.connected() as trial:
        result = await trial.prompt("say it", script)
        if result.status == "completed":
            assert trial.text().endswith("all of it.")
        else:
            assert result.error is not None
            assert (result.status, result.error.code) == ("failed", "provider_failed")
        # In neither case is the half taken for the whole, and the conversation goes on.
        after = await trial.prompt("and now?", [{"text": "Yes."}])
        assert (after.status, after.error) == ("completed", None)


async def test_a_program_that_ended_its_turn_itself_stays_though_the_provider_failed(site: Site):
    """Whoever was told to try again need not wait for another start."""
    async with site.connected() as trial:
        await trial.prompt("hello", [{"text": "hello"}])
        before = site.programs()
        result = await trial.prompt("fail", [{"error": "bad_key"}])
        assert (result.status, result.error and result.error.code) == ("failed", "bad_api_key")
        result = await trial.prompt("and now?", [{"text": "Yes."}])
        assert (result.status, result.error, trial.text()) == ("completed", None, "Yes.")
        assert (before == site.programs()) == site.subject.ends_failed_turns


async def test_a_session_whose_first_prompt_was_refused_is_not_lost(site: Site):
    """Somebody had the wrong key, has set another, and prompts again."""
    async with site.connected() as trial:
        result = await trial.prompt("hello", [{"error": "bad_key"}])
        assert result.status == "failed"
        after = await trial.prompt("hello again", [{"text": "Hello."}])
        assert (after.status, after.error, trial.text()) == ("completed", None, "Hello.")


async def test_without_a_key_nothing_is_started_and_the_command_to_type_is_told(site: Site):
    async with site.connected(keys={}) as trial:
        result = await trial.prompt("hello", [{"text": "hello"}])
        assert result.status == "failed"
        assert result.error is not None
        assert result.error.code == "no_such_credential"
        assert result.error.hint == f"add one with `agor credential set {site.subject.credential}`"
        assert site.processes() == {}
    assert site.model.requests == []


async def test_the_key_is_in_the_environment_of_the_agents_program_at_most(site: Site):
    async with site.connected() as trial:
        await trial.prompt("hello", [{"text": "hello"}])
        programs = site.processes()
        for pid, words in programs.items():
            assert KEY not in words
            assert b"canary-of-the-executor" not in command_line_and_environment(pid)
        if site.subject.stays:
            seen = any(KEY.encode() in command_line_and_environment(pid) for pid in programs)
            assert seen == site.subject.key_in_environment
        assert KEY not in site.executor.log + trial.side.wire_text()
    # Whoever is still ending puts files away.
    await site.no_process_left()
    for path in site.folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert KEY.encode() not in path.read_bytes(), path


async def test_a_program_that_is_killed_ends_its_turn_and_the_next_one_goes_on(site: Site):
    async with site.connected() as trial:
        await trial.prompt("My name is Rosalind.", [{"text": "Pleased."}])
        run = trial.start("stall", [{"text": "I was about to"}, {"stall": True}])
        await trial.side.until(lambda: trial.side.text(run.get_name()))
        site.kill_programs()
        result = await run
        assert result.status == "failed"
        assert result.error is not None
        assert result.error.code == "agent_ended"
        result = await trial.prompt("What is my name?", [{"text": "Rosalind."}])
        assert (result.status, result.error, trial.text()) == ("completed", None, "Rosalind.")
    last = [call for call in site.model.requests if b"What is my name?" in call.body][-1]
    assert b"My name is Rosalind." in last.body


async def test_what_was_said_survives_a_program_that_is_killed_right_after_it(site: Site):
    """A turn that we told as completed is in the agent's memory, whatever comes next."""
    async with site.connected() as trial:
        result = await trial.prompt("My name is Rosalind.", [{"text": "Pleased."}])
        assert (result.status, result.error) == ("completed", None)
        # Twice: what one start leaves behind must not be the end of it for the next.
        for _ in range(2):
            await site.kill_all()
            result = await trial.prompt("What is my name?", [{"text": "Rosalind."}])
            assert (result.status, result.error, trial.text()) == ("completed", None, "Rosalind.")
    last = [call for call in site.model.requests if b"What is my name?" in call.body][-1]
    assert b"My name is Rosalind." in last.body

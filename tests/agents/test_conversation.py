"""The contract of agents: what is said, what is remembered. Every agent passes it."""

from __future__ import annotations

import pytest

from agor.protocol.events import BlockDelta
from tests.agents.site import KEY, Site


async def test_text_is_told_as_it_comes_and_the_turn_has_a_result(site: Site):
    words = " ".join(f"word{number}" for number in range(40))
    async with site.connected() as trial:
        result = await trial.prompt("say it", [{"text": words}])
        assert (result.status, result.error) == ("completed", None)
        assert trial.text() == words
        assert len(trial.side.of_kind(trial.tasks[0], BlockDelta)) > 1
        assert all(block.complete for block in trial.blocks())
        assert result.agent_session_id
        assert result.token_usage.output > 0
        assert (result.cost is not None) == site.subject.tells_cost


async def test_thinking_is_told_apart_from_text(site: Site):
    async with site.connected() as trial:
        await trial.prompt("think", [{"thinking": "first a thought"}, {"text": "then a word"}])
        assert trial.text() == "then a word"
        if site.subject.tells_thinking:
            assert trial.text("thinking").strip() == "first a thought"


async def test_the_key_and_the_chosen_model_reach_the_provider(site: Site):
    async with site.connected() as trial:
        await trial.prompt("hello", [{"text": "hello"}], model=site.subject.other_model)
        asked = [each.credential_key for each in trial.side.key_requests]
        assert asked == [site.subject.credential]
    calls = [call for call in site.model.requests if call.method == "POST"]
    assert any(site.subject.other_model in call.target + call.body.decode() for call in calls)
    for call in calls:
        assert any(value.endswith(KEY[-4:]) for value in call.headers.values()), call.target


async def test_the_next_prompt_goes_on_with_the_same_program_and_all_that_was_said(site: Site):
    async with site.connected() as trial:
        await trial.prompt("My name is Rosalind.", [{"text": "Pleased to meet you."}])
        programs = site.programs()
        first = trial.resume
        result = await trial.prompt("What is my name?", [{"text": "It is Rosalind."}])
        assert (result.status, result.agent_session_id) == ("completed", first)
        assert trial.text() == "It is Rosalind."
        if site.subject.stays:
            assert programs
            assert site.programs() == programs
        # The key is asked for again: it may have been changed or taken away meanwhile.
        assert len(trial.side.key_requests) == 2
    last = [call for call in site.model.requests if b"What is my name?" in call.body][-1]
    assert b"My name is Rosalind." in last.body
    assert b"Pleased to meet you." in last.body


async def test_a_conversation_goes_on_after_its_executor_is_gone(site: Site):
    async with site.connected() as trial:
        await trial.prompt("My name is Rosalind.", [{"text": "Pleased to meet you."}])
        conversation = trial.resume
    await site.no_process_left()
    async with site.connected() as trial:
        trial.resume = conversation
        result = await trial.prompt("What is my name?", [{"text": "It is Rosalind."}])
        assert (result.status, result.agent_session_id) == ("completed", conversation)
        # What was said before is not told a second time.
        assert [block.text for block in trial.blocks() if block.kind == "text"] == [
            "It is Rosalind."
        ]
    last = [call for call in site.model.requests if b"What is my name?" in call.body][-1]
    assert b"My name is Rosalind." in last.body
    assert b"Pleased to meet you." in last.body


async def test_another_model_is_taken_from_one_prompt_to_the_next(site: Site):
    async with site.connected() as trial:
        await trial.prompt("one", [{"text": "one"}])
        result = await trial.prompt("two", [{"text": "two"}], model=site.subject.other_model)
        assert (result.status, trial.text()) == ("completed", "two")
    last = [call for call in site.model.requests if b"two" in call.body][-1]
    assert site.subject.other_model in last.target + last.body.decode()


async def test_a_prompt_of_many_characters_and_odd_ones_arrives_whole(site: Site):
    odd = "grüß Gott 👋 \u2028 \\n 'quotes' \"more\" " + "x" * 200_000
    async with site.connected() as trial:
        assert (await trial.prompt(odd, [{"text": "ok"}])).status == "completed"
    assert any(b"x" * 200_000 in call.body for call in site.model.requests)


@pytest.mark.parametrize("size", [100_000])
async def test_a_long_answer_arrives_whole(site: Site, size: int):
    words = "".join(f"{number:07d} " for number in range(size // 8))
    async with site.connected() as trial:
        await trial.prompt("much", [{"text": words}])
        assert trial.text() == words

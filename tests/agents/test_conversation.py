"""The contract of agents: what is remembered, by whom, and for how long. Every agent passes it."""

from __future__ import annotations

from tests.agents.site import KEY, Site


async def test_a_conversation_goes_on_in_the_same_program_and_in_another_executor(site: Site):
    async with site.connected() as trial:
        await trial.prompt("My name is Rosalind.", [{"text": "Pleased to meet you."}])
        programs = site.programs()
        first = trial.resume
        result = await trial.prompt("And my age is 34.", [{"text": "I see."}])
        assert (result.status, result.agent_session_id) == ("completed", first)
        assert trial.text() == "I see."
        if site.subject.stays:
            assert programs
            assert site.programs() == programs
        # The key is asked for again: it may have been changed or taken away meanwhile.
        assert len(trial.side.key_requests) == 2
    second = _asking(site, b"And my age is 34.")
    assert b"My name is Rosalind." in second
    assert b"Pleased to meet you." in second
    await site.no_process_left()
    async with site.connected() as trial:
        trial.resume = first
        result = await trial.prompt("Who am I?", [{"text": "You are Rosalind."}])
        assert (result.status, result.agent_session_id) == ("completed", first)
        # What was said before is not told a second time.
        texts = [block.text for block in trial.blocks() if block.kind == "text"]
        assert texts == ["You are Rosalind."]
    third = _asking(site, b"Who am I?")
    for words in (b"My name is Rosalind.", b"Pleased to meet you.", b"And my age is 34."):
        assert words in third


async def test_the_key_and_the_chosen_model_reach_the_provider_also_when_that_changes(site: Site):
    async with site.connected() as trial:
        await trial.prompt("one", [{"text": "one"}])
        result = await trial.prompt("two", [{"text": "two"}], model=site.subject.other_model)
        assert (result.status, trial.text()) == ("completed", "two")
        asked = {each.credential_key for each in trial.side.key_requests}
        assert asked == {site.subject.credential}
    calls = [call for call in site.model.requests if call.method == "POST"]
    by_model = [call.target + call.body.decode() for call in calls]
    assert any(site.subject.model in call for call in by_model)
    assert site.subject.other_model in [call for call in by_model if "two" in call][-1]
    for call in calls:
        assert any(value.endswith(KEY[-4:]) for value in call.headers.values()), call.target


def _asking(site: Site, words: bytes) -> bytes:
    """The last request with which a prompt was put to the model."""
    return [call.body for call in site.model.requests if words in call.body][-1]

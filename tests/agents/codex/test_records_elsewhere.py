"""Records of Codex that went on elsewhere."""

from __future__ import annotations

import shutil

from agor.protocol.methods import PREPARE_SESSION, READ_TRANSCRIPT
from agor.protocol.transcripts import PrepareSessionParams, ReadTranscriptParams
from tests.agents.codex.steps import told_to_model
from tests.agents.site import PATIENCE, Site
from tests.agents.test_records import which


async def test_a_conversation_that_went_on_elsewhere_comes_back_with_all_that_was_said(site: Site):
    kept = site.folder / "kept"
    async with site.connected() as trial:
        await trial.prompt("My name is Rosalind.", [{"text": "Pleased."}])
        conversation = trial.resume
    await site.no_process_left()
    shutil.copytree(site.home, kept, symlinks=True)
    async with site.connected() as trial:
        trial.resume = conversation
        await trial.prompt("I live in Paris.", [{"text": "How nice."}])
        params = ReadTranscriptParams(**which(trial))
        answer = await trial.side.peer.call(READ_TRANSCRIPT, params, timeout=PATIENCE)
    await site.no_process_left()
    shutil.rmtree(site.home)
    kept.rename(site.home)
    async with site.connected() as trial:
        trial.resume = conversation
        bring = PrepareSessionParams(**which(trial), transcript=answer.transcript)
        await trial.side.peer.call(PREPARE_SESSION, bring, timeout=PATIENCE)
        result = await trial.prompt("Where do I live?", [{"text": "In Paris."}])
        assert (result.status, result.error) == ("completed", None)
        assert "My name is Rosalind." in told_to_model(site)
        assert "I live in Paris." in told_to_model(site)
        again = await trial.prompt("And my name?", [{"text": "Rosalind."}])
        assert again.status == "completed"

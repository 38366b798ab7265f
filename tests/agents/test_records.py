"""The contract of agents: their own records tell what was told live. Every agent passes it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from agor.errors import HandlerFailed
from agor.execution import Conversation
from agor.protocol.methods import (
    PREPARE_SESSION,
    READ_TRANSCRIPT,
    RequestPermissionParams,
    RequestPermissionResult,
)
from agor.protocol.transcripts import (
    PrepareSessionParams,
    ReadTranscriptParams,
    ReadTranscriptResult,
    Transcript,
    TranscriptBlock,
)
from tests.agents.site import PATIENCE, Site, Trial, prompt_of


def which(trial: Trial) -> dict[str, Any]:
    assert trial.resume is not None
    subject = trial.site.subject
    workspace = str(trial.site.workspace)
    return Conversation("s", subject.agentic_tool, trial.resume, workspace)._asdict()


async def told_by_record(trial: Trial) -> list[TranscriptBlock]:
    params = ReadTranscriptParams(**which(trial), form="blocks")
    answer = await trial.side.peer.call(READ_TRANSCRIPT, params, timeout=PATIENCE)
    assert not answer.more
    return answer.blocks


async def lines_of(trial: Trial, **more: Any) -> ReadTranscriptResult:
    params = ReadTranscriptParams(**which(trial), **more)
    return await trial.side.peer.call(READ_TRANSCRIPT, params, timeout=PATIENCE)


def _has(part: ReadTranscriptResult, words: bytes) -> bool:
    return any(words in bytes(line) for line in part.transcript.main)


def told_live(trial: Trial, prompts: list[str]) -> list[TranscriptBlock]:
    """The blocks of all tasks, each behind its prompt, which the daemon tells."""
    found: list[TranscriptBlock] = []
    for task_id, prompt in zip(trial.tasks, prompts, strict=True):
        found.append(TranscriptBlock(kind="user_message", text=prompt))
        for block in trial.blocks(task_id):
            found.append(
                TranscriptBlock(
                    kind=block.kind,
                    text=block.text,
                    parent_tool_use_id=block.parent_tool_use_id,
                    tool_use_id=block.tool_use_id,
                    tool_name=block.tool_name,
                    tool_input=block.tool_input,
                    is_error=block.is_error,
                )
            )
    return found


def comparable(site: Site, blocks: list[TranscriptBlock]) -> list[TranscriptBlock]:
    if not site.subject.keeps_denied_input:
        denied = {block.tool_use_id for block in blocks if block.is_error}
        blocks = [
            msgspec.structs.replace(block, tool_input=None)
            if block.tool_use_id in denied
            else block
            for block in blocks
        ]
    if site.subject.keeps_thinking:
        return blocks
    return [block for block in blocks if block.kind != "thinking"]


async def test_the_record_of_a_conversation_tells_the_blocks_that_were_told_live(site: Site):
    path, denied = site.workspace / "a.txt", site.workspace / "b.txt"

    def decide(question: RequestPermissionParams) -> RequestPermissionResult:
        no = "b.txt" in str(question.tool_input)
        return RequestPermissionResult(approved=not no, reason="not that one" if no else None)

    thought = [{"thinking": "hm"}] if site.subject.tells_thinking else []
    turns: list[tuple[str, list[Any]]] = [
        (
            "first",
            [[*thought, {"text": "one"}, site.subject.write(path, "a\n")], [{"text": "two"}]],
        ),
        ("then", [[site.subject.run(f"touch {denied}")], [{"text": "well"}]]),
        ("at last", [[{"text": "three"}, site.subject.run("echo seven")], [{"text": "four"}]]),
    ]
    async with site.connected() as trial:
        trial.side.decide = decide
        for words, script in turns[:2]:
            assert (await trial.prompt(words, *script)).status == "completed"
        before = await lines_of(trial)
        assert (await trial.prompt("at last", *turns[2][1])).status == "completed"
        # Who has the lines up to there gets those that were added, and no other.
        added = await lines_of(trial, cursor=before.cursor, wait_ms=30_000)
        assert _has(before, b"well")
        assert _has(added, b"four")
        assert not _has(added, b"well")
        prompts = [prompt_of(words, *script) for words, script in turns]
        live = comparable(site, told_live(trial, prompts))
        recorded = comparable(site, await told_by_record(trial))
        assert recorded == live
    # And still after everything was started anew.
    conversation = trial.resume
    async with site.connected() as trial:
        trial.resume = conversation
        assert comparable(site, await told_by_record(trial)) == live


async def test_a_conversation_goes_on_where_only_its_record_was_brought(site: Site):
    if not site.subject.restores:
        pytest.skip(f"only {site.subject.program} itself knows where its records are")
    async with site.connected() as trial:
        await trial.prompt("My name is Rosalind.", [{"text": "Pleased to meet you."}])
        conversation = trial.resume
        answer = await lines_of(trial)
        assert answer.transcript.main
    site.move_home_away()
    async with site.connected() as trial:
        trial.resume = conversation
        with pytest.raises(HandlerFailed) as refused:
            await told_by_record(trial)
        assert refused.value.code == "no_transcript"
        await _bring(trial, answer.transcript)
        result = await trial.prompt("What is my name?", [{"text": "It is Rosalind."}])
        assert (result.status, result.error) == ("completed", None)
    last = [call for call in site.model.requests if b"What is my name?" in call.body][-1]
    assert b"My name is Rosalind." in last.body
    assert b"Pleased to meet you." in last.body


async def _bring(trial: Trial, transcript: Transcript) -> None:
    params = PrepareSessionParams(**which(trial), transcript=transcript)
    answer = await trial.side.peer.call(PREPARE_SESSION, params, timeout=PATIENCE)
    assert answer.ready

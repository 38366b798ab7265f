"""A program that embeds an executor: prompts, records that are followed, and brought elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from agor.errors import HandlerFailed
from agor.execution import Conversation, ExecutionEnvironment
from agor.protocol.methods import ExecutePromptParams, GetApiKeyParams, GetApiKeyResult
from agor.protocol.transcripts import Transcript
from agor.rpc import unix
from tests.agents.needed import need_agent
from tests.agents.site import KEY, PATIENCE, Site, prompt_of, site_of
from tests.agents.subjects.claude import CLAUDE
from tests.integration.daemon_side import new_task_id
from tests.integration.pool.side import Side


class Host(Side):
    """A program that has a key for its agent."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    async def get_api_key(self, _: ExecutionEnvironment, __: GetApiKeyParams) -> GetApiKeyResult:
        return GetApiKeyResult(api_key=KEY, base_url=self._url)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    need_agent(CLAUDE.agentic_tool)
    async with site_of(CLAUDE) as made:
        yield made


@asynccontextmanager
async def environment_at(site: Site) -> AsyncIterator[ExecutionEnvironment]:
    executor = site.start()
    connect = partial(unix.connect, executor.path)
    environment = await ExecutionEnvironment.create(
        "embedded", Host(site.model.url), connect, timeout=PATIENCE
    )
    try:
        yield environment
        await environment.shut_down("the test is over", 0)
    finally:
        await environment.close()
        await executor.ended()


async def prompt(
    environment: ExecutionEnvironment, site: Site, words: str, said: str, resume: str | None = None
) -> str:
    """Have one turn; gives how the agent calls the conversation."""
    params = ExecutePromptParams(
        session_token="token",
        session_id="session",
        task_id=new_task_id(),
        agentic_tool=CLAUDE.agentic_tool,
        prompt=prompt_of(words, [{"text": said}]),
        cwd=str(site.workspace),
        model=CLAUDE.model,
        resume=resume,
    )
    result = await environment.execute_prompt(params, timeout=PATIENCE)
    assert (result.status, result.error) == ("completed", None)
    assert result.agent_session_id is not None
    return result.agent_session_id


def has(part: Transcript, words: str) -> bool:
    return any(words.encode() in bytes(line) for line in part.main)


async def test_a_record_is_followed_and_goes_on_where_it_was_brought(site: Site):
    async with environment_at(site) as environment:
        name = await prompt(environment, site, "My name is Rosalind.", "Pleased.")
        which = Conversation("session", CLAUDE.agentic_tool, name, str(site.workspace))
        watch = environment.watch_session_transcript(which)
        async with asyncio.timeout(PATIENCE):
            assert has(await anext(watch), "Pleased.")
            going_on = asyncio.create_task(prompt(environment, site, "Go on.", "On we go.", name))
            while not has(part := await anext(watch), "On we go."):
                assert not has(part, "Pleased.")
            await going_on
        record = await environment.read_session_transcript(which)
        blocks = await environment.read_session_blocks(which)
        assert [block.text for block in blocks if block.kind == "text"] == ["Pleased.", "On we go."]
    site.move_home_away()
    async with environment_at(site) as environment:
        with pytest.raises(HandlerFailed, match="record"):
            await environment.read_session_transcript(which)
        await environment.prepare_session(which, record)
        assert await environment.read_session_blocks(which) == blocks
        await prompt(environment, site, "Who am I?", "Rosalind.", name)
    last = [call.body for call in site.model.requests if b"Who am I?" in call.body][-1]
    assert b"My name is Rosalind." in last

"""Real agents through the daemon, as the Unix users of those they work for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from agor.errors import NotFound
from agor.testing.model import ModelServer
from tests.agents.needed import need_agent
from tests.agents.site import PATIENCE
from tests.agents.subjects import SUBJECTS
from tests.agents.subjects.base import Subject
from tests.contract.waiting import until
from tests.integration.impersonation.agent_desk import AgentDesk, client_of, desk_of
from tests.integration.impersonation.daemon_site import Machine, Site, site_of
from tests.integration.impersonation.people_site import PeopleSite, people_site
from tests.integration.impersonation.readable_agents import agents_for_everybody
from tests.integration.unix_users import TestUser, processes_of, status_of

KEYS = {"anna": "sk-of-anna-0123456789", "ben": "sk-of-ben-9876543210"}


@pytest.fixture
def root_site(machine: Machine, tmp_path: Path) -> Iterator[Site]:
    """A daemon that is root, and runs executors as Anna and Ben."""
    with site_of("setuid", machine, tmp_path / "log") as site:
        yield site


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    names = [name for each in SUBJECTS.values() for name in (each.model, each.other_model)]
    async with ModelServer(models=names) as server:
        yield server


@pytest.fixture(params=sorted(SUBJECTS))
def subject(request: pytest.FixtureRequest) -> Subject:
    found = SUBJECTS[request.param]
    need_agent(found.agentic_tool)
    return found


def daemon_on(site: Site) -> AbstractContextManager[PeopleSite]:
    return people_site(site, **{"execution.agents_folder": str(agents_for_everybody())})


async def write_a_file(desk: AgentDesk, user: TestUser) -> None:
    path = desk.folder / "new.txt"
    script = [desk.subject.write(path, "hello\n")], [{"text": "It is written."}]
    task = await desk.prompt("Write a file for Rosalind.", *script)
    question = await desk.asked()
    assert question.tool_name == desk.subject.write_tool
    assert not path.exists()
    await desk.client.decide(question.permission_id, approved=True)
    assert (await desk.ended(task)).status == "completed"
    assert (path.read_text().strip(), path.stat().st_uid) == ("hello", user.uid)


async def be_denied(desk: AgentDesk) -> None:
    path = desk.folder / "denied.txt"
    task = await desk.prompt("Touch.", [desk.subject.run(f"touch {path}")], [{"text": "Well."}])
    question = await desk.asked()
    await desk.client.decide(question.permission_id, approved=False, reason="not on a Friday")
    assert (await desk.ended(task)).status == "completed"
    assert not path.exists()


async def be_stopped(desk: AgentDesk, user: TestUser) -> None:
    begun = desk.folder / "begun"
    command = f"echo on > {begun}; setsid nohup sleep 4000 & sleep 4000"
    task = await desk.prompt("Wait.", [desk.subject.run(command)], [{"text": "never"}])
    question = await desk.asked()
    await desk.client.decide(question.permission_id, approved=True)
    await until(begun.exists, PATIENCE)
    await desk.client.stop_task(task)
    told = await desk.ended(task)
    assert (told.status, told.survivors) == ("stopped", 0)
    left = {status_of(pid).get("Name", "") for pid in processes_of(user.uid)}
    assert not left & {"sleep", "node", "claude", "codex", "gemini", "opencode"}, left


async def test_a_conversation_over_the_api_from_a_file_to_a_restart(
    root_site: Site, anna: TestUser, subject: Subject, model: ModelServer
):
    """Several turns: one tool allowed, one denied, one stopped; then the daemon is killed."""
    with daemon_on(root_site) as daemon:
        async with desk_of(daemon, "anna", anna, subject, model, KEYS["anna"]) as desk:
            await write_a_file(desk, anna)
            await be_denied(desk)
            await be_stopped(desk, anna)
            before = await desk.blocks()
            uses = [block for block in before if block.kind == "tool_use"]
            assert [use.status for use in uses][:2] == ["completed", "denied"]
            assert uses[1].reason == "not on a Friday"
        daemon.process.kill()
        daemon.process.wait()
    with daemon_on(root_site) as daemon:
        async with client_of(daemon, "anna") as client:
            again = AgentDesk(client, subject, desk.folder, desk.session)
            task = await again.prompt("Whom was it for?", [{"text": "For Rosalind."}])
            told = await again.ended(task)
            assert (told.status, told.error) == ("completed", None)
            after = await again.blocks()
            assert after[: len(before)] == before
            assert after[-1].text == "For Rosalind."
            assert told.token_usage is not None
            assert told.token_usage.output > 0
    last = [call for call in model.requests if b"Whom was it for?" in call.body][-1]
    assert b"Write a file for Rosalind." in last.body


@pytest.mark.parametrize("pair", [("claude", "codex")])
async def test_two_people_side_by_side_see_nothing_of_each_other(
    root_site: Site, anna: TestUser, ben: TestUser, model: ModelServer, pair: tuple[str, str]
):
    first, second = (SUBJECTS[name] for name in pair)
    need_agent(second.agentic_tool)
    with daemon_on(root_site) as daemon:
        async with (
            desk_of(daemon, "anna", anna, first, model, KEYS["anna"]) as annas,
            desk_of(daemon, "ben", ben, second, model, KEYS["ben"]) as bens,
        ):
            await asyncio.gather(write_a_file(annas, anna), write_a_file(bens, ben))
            seen = bens.folder / "seen"
            secret = annas.folder / "new.txt"
            look = f"ls -a {anna.home} {annas.folder} > {seen}; cat {secret} /proc/*/environ"
            task = await bens.prompt(
                "Look.", [second.run(f"{look} >> {seen}; true")], [{"text": "Well."}]
            )
            question = await bens.asked()
            await bens.client.decide(question.permission_id, approved=True)
            assert (await bens.ended(task)).status == "completed"
            found = seen.read_bytes()
            assert KEYS["anna"].encode() not in found
            assert b"new.txt" not in found
            for path in ("", "/transcript", "/messages", "/tasks"):
                answer = daemon.ask("ben", "GET", f"/sessions/{annas.session.session_id}{path}")
                assert answer.status_code == 404, path
            with pytest.raises(NotFound):
                await bens.client.messages(annas.session.session_id)
            record = await annas.client.transcripts.read(annas.session.session_id)
            assert any(b"Write a file for Rosalind." in bytes(line) for line in record.main)
            blocks = await annas.client.transcripts.blocks(annas.session.session_id)
            told = await annas.blocks()
            assert [block.text for block in blocks] == [block.text for block in told]
    for call in model.requests:
        keys = {name for name, key in KEYS.items() if _ends_with(call.headers.values(), key[-4:])}
        assert len(keys) == 1, call.target


def _ends_with(values: Iterable[str], ending: str) -> bool:
    return any(value.endswith(ending) for value in values)

"""Who gets which key: the session's owner's, for the agent that needs it, and recorded before."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agor.daemon.services.credentials import agent_keys
from agor.daemon.services.credentials.master_key import MasterKey
from agor.daemon.store import credentials
from agor.daemon.store.base import Statement, Write
from agor.daemon.store.rows import CredentialRow
from agor.errors import HandlerFailed, RpcError, TokenRefused
from agor.protocol.mcp import McpServer
from tests.integration.daemon.asker import Asker
from tests.integration.daemon.gate import Gate
from tests.integration.daemon.in_process import Desk, desk_in, soon
from tests.integration.daemon.key_desk import ANN, BOB, KeyDesk, Records, ask, invite

KEY = "ANTHROPIC_API_KEY"
#: More agents than are built so far: who they are is in the row of their session.
ALL = ["claude-code", "codex", "gemini", "opencode", "scripted", "acp:mine"]


@contextlib.asynccontextmanager
async def people(folder: Path, **settings: object) -> AsyncIterator[tuple[KeyDesk, KeyDesk, Desk]]:
    await invite(folder, ANN, BOB)
    asker = Asker()
    async with desk_in(folder, asker.make, **settings) as desk:
        yield KeyDesk(desk, asker), KeyDesk(desk, asker, BOB), desk


async def test_a_task_gets_the_key_of_its_own_person_only(folder: Path):
    async with people(folder) as (ann, bob, _):
        await ann.keep(KEY, "sk-of-ann-0001", base_url="https://ann.example.com/v1")
        with pytest.raises(HandlerFailed, match="no such credential") as caught:
            await bob.ask(KEY)
        assert caught.value.code == "no_such_credential"
        assert caught.value.hint == f"add one with `agor credential set {KEY}`"
        await bob.keep(KEY, "sk-of-bob-0002")
        given = await ann.ask(KEY)
        assert (given.api_key, given.base_url) == ("sk-of-ann-0001", "https://ann.example.com/v1")
        given = await bob.ask(KEY)
        assert (given.api_key, given.base_url) == ("sk-of-bob-0002", None)


async def test_of_several_names_the_first_there_is_counts_and_ones_own_before_the_teams(
    folder: Path,
):
    async with people(folder) as (ann, bob, desk):
        await ann.keep(KEY, "sk-of-the-team-0001", team=True)
        await bob.keep("ANTHROPIC_AUTH_TOKEN", "token-of-bob-0002")
        records = Records(desk.daemon.store)
        names = (KEY, "ANTHROPIC_AUTH_TOKEN")
        given = await ask(*await bob.task("claude-code"), *names)
        assert (given.api_key, given.credential_key) == ("token-of-bob-0002", names[1])
        given = await ask(*await ann.task("claude-code"), *names)
        assert (given.api_key, given.credential_key) == ("sk-of-the-team-0001", KEY)
        delivered = records.of("credential.delivered")
        assert [each["subject"] for each in delivered] == [names[1], KEY]
        assert records.of("credential.refused") == []
        with pytest.raises(HandlerFailed, match="does not get the credential 'OPENAI_API_KEY'"):
            await ask(*await bob.task("claude-code"), KEY, "OPENAI_API_KEY")


async def test_an_agent_gets_what_its_sessions_tool_servers_name_and_they_get_no_value(
    folder: Path,
):
    servers = {"hub": McpServer(command="hub", env={"TOKEN": "Bearer ${HUB_TOKEN}"})}
    async with people(folder) as (ann, _, _):
        await ann.keep("HUB_TOKEN", "hub-of-ann-0001")
        executor, params = await ann.task("claude-code", mcp_servers=servers)
        assert params.mcp_servers == servers
        assert (await ask(executor, params, "HUB_TOKEN")).api_key == "hub-of-ann-0001"
        with pytest.raises(HandlerFailed, match="does not get the credential"):
            await ask(*await ann.task("claude-code"), "HUB_TOKEN")


@pytest.mark.parametrize("agent", ALL)
@pytest.mark.parametrize(
    ("name", "only"),
    [
        ("ANTHROPIC_API_KEY", "claude-code"),
        ("ANTHROPIC_AUTH_TOKEN", "claude-code"),
        ("OPENAI_API_KEY", "codex"),
        ("CODEX_API_KEY", "codex"),
        ("GEMINI_API_KEY", "gemini"),
        ("GOOGLE_API_KEY", "gemini"),
        ("MY_OWN", None),
    ],
)
async def test_an_agent_gets_only_what_it_needs(
    folder: Path, agent: str, name: str, only: str | None
):
    async with people(folder) as (ann, _, desk):
        await ann.keep(name)
        records = Records(desk.daemon.store)
        if agent in ("opencode", "scripted", "acp:mine", only):
            assert (await ann.ask(name, agent)).api_key == "sk-0123456789-LAST"
            assert records.of("credential.refused") == []
            return
        with pytest.raises(HandlerFailed, match="does not get") as caught:
            await ann.ask(name, agent)
        assert caught.value.code == "credential_refused"
        assert [each["agent"] for each in records.of("credential.refused")] == [agent]
        assert records.of("credential.delivered") == []


@pytest.mark.parametrize("agent", ["claude", "acp:", "Scripted"])
def test_an_agent_that_nobody_knows_needs_nothing(agent: str):
    """No session has one; a row of another version might."""
    assert not agent_keys.needs(agent, KEY)


async def test_the_credential_itself_can_narrow_that_further(folder: Path):
    async with people(folder) as (ann, _, __):
        await ann.keep("MY_OWN", agents=["opencode", "acp:mine"])
        assert (await ann.ask("MY_OWN", "opencode")).api_key
        assert (await ann.ask("MY_OWN", "acp:mine")).api_key
        for agent in ("scripted", "acp:other"):
            with pytest.raises(HandlerFailed, match="does not get"):
                await ann.ask("MY_OWN", agent)


async def test_a_key_that_is_sealed_anew_while_it_is_asked_for_is_given(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    async with people(folder) as (ann, _, desk):
        await ann.keep(KEY)
        rotations, real = desk.daemon.rotations, credentials.get

        async def get(*asked: Any) -> CredentialRow | None:
            row = await real(*asked)
            monkeypatch.setattr(credentials, "get", real)
            await rotations.begin(ann.who)
            while (await rotations.show(ann.who)).status == "running":
                await asyncio.sleep(0)
            return row

        executor, params = await ann.task()
        monkeypatch.setattr(credentials, "get", get)
        assert (await ask(executor, params, KEY)).api_key == "sk-0123456789-LAST"
        assert (await rotations.show(ann.who)).versions == [2]


# ── the team's ───────────────────────────────────────────────────────────────────────────────


async def test_the_teams_is_for_those_who_have_none_of_their_own(folder: Path):
    async with people(folder) as (ann, bob, desk):
        records = Records(desk.daemon.store)
        await ann.keep(KEY, "sk-of-the-team", team=True)
        assert (await bob.ask(KEY)).api_key == "sk-of-the-team"
        await bob.keep(KEY, "sk-of-bob-0002")
        assert (await bob.ask(KEY)).api_key == "sk-of-bob-0002"
        assert (await ann.ask(KEY)).api_key == "sk-of-the-team"
        told = [(each["who"], each["team"]) for each in records.of("credential.delivered")]
        assert told == [("bob", True), ("bob", False), ("ann", True)]
        shown = [(each.whose, each.set_by) for each in await bob.kept()]
        assert shown == [("own", "Bob"), ("team", "Ann")]


async def test_ones_own_that_is_not_for_an_agent_is_not_replaced_by_the_teams(folder: Path):
    async with people(folder) as (ann, bob, _):
        await ann.keep("MY_OWN", "sk-of-the-team", team=True)
        await bob.keep("MY_OWN", agents=["opencode"])
        with pytest.raises(HandlerFailed, match="does not get"):
            await bob.ask("MY_OWN")


# ── the record of it ─────────────────────────────────────────────────────────────────────────


async def test_every_delivery_is_recorded_with_all_that_matters(folder: Path):
    async with people(folder) as (ann, _, desk):
        await ann.keep(KEY)
        records = Records(desk.daemon.store)
        executor, params = await ann.task()
        for _ in range(2):
            await ask(executor, params, KEY)
        told = records.of("credential.delivered")
        assert len(told) == 2
        task = await desk.task(params.task_id)
        assert told[0] == {
            "who": "ann", "session": params.session_id, "subject": KEY, "result": "ok",
            "task": params.task_id, "executor": task.executor_id, "agent": "scripted",
            "team": False, "last_four": "LAST",
        }  # fmt: skip
        assert not any("sk-0123456789" in repr(each) for each in records.kept)
        assert (await ann.kept())[0].last_used_at is not None


async def test_no_key_is_given_before_its_delivery_is_stored(folder: Path):
    async with people(folder) as (ann, _, desk):
        await ann.keep(KEY)
        executor, params = await ann.task()
        gate = Gate(desk.daemon.store)
        gate.hold("UPDATE credentials SET last_used_at")
        asking = asyncio.create_task(ask(executor, params, KEY))
        await soon(gate.reached.wait())
        assert not asking.done()
        gate.lift()
        assert (await soon(asking)).api_key == "sk-0123456789-LAST"


async def test_what_cannot_be_recorded_is_not_given_and_counts_as_no_use(folder: Path):
    async with people(folder, execution__session_token_max_uses=1) as (ann, _, desk):
        await ann.keep(KEY)
        executor, params = await ann.task()
        gate = Gate(desk.daemon.store)
        gate.refuse()
        with pytest.raises(RpcError, match="no space is left"):
            await ask(executor, params, KEY)
        gate.lift()
        assert (await ann.kept())[0].last_used_at is None
        assert (await ask(executor, params, KEY)).api_key
        with pytest.raises(TokenRefused, match="used 1 times"):
            await ask(executor, params, KEY)


async def test_every_refusal_is_recorded(folder: Path):
    async with people(folder, execution__session_token_max_uses=1) as (ann, _, desk):
        records = Records(desk.daemon.store)
        await ann.keep(KEY)
        executor, params = await ann.task()
        await ask(executor, params, KEY)
        for name in (KEY, "NONE", "../x"):
            with pytest.raises(RpcError):
                await ask(executor, params, name)
        told = [(each["code"], each["subject"]) for each in records.of("credential.refused")]
        assert told == [
            ("token_refused", KEY),
            ("no_such_credential", "NONE"),
            ("no_such_credential", "../x"),
        ]


async def test_a_task_cannot_fill_the_audit_log_with_its_questions(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("agor.daemon.services.credentials.keys._MOST_QUESTIONS", 3)
    async with people(folder) as (ann, _, desk):
        records = Records(desk.daemon.store)
        executor, params = await ann.task()
        for _ in range(5):
            with pytest.raises(RpcError):
                await ask(executor, params, KEY)
        assert len(records.of("credential.refused")) == 3


async def test_a_task_that_is_over_gets_nothing(folder: Path):
    async with people(folder) as (ann, _, desk):
        await ann.keep(KEY)
        executor, params = await ann.task()
        executor.end(params, 1)
        await desk.ended(params.session_id, params.task_id)
        with pytest.raises(TokenRefused):
            await ask(executor, params, KEY)


async def test_a_key_of_somebody_who_was_disabled_is_not_given(folder: Path):
    async with people(folder) as (_, bob, desk):
        await bob.keep(KEY)
        records = Records(desk.daemon.store)
        executor, params = await bob.task()
        desk.daemon.people.put(msgspec.structs.replace(BOB, disabled_at=5))
        with pytest.raises(RpcError, match="disabled"):
            await ask(executor, params, KEY)
        assert [each["code"] for each in records.of("credential.refused")] == ["forbidden"]


@pytest.mark.parametrize(
    ("event", "code"),
    [("disabled", "forbidden"), ("over", "token_refused"), ("deleted", "no_such_credential")],
)
async def test_nor_is_one_that_was_still_being_opened_then(folder: Path, event: str, code: str):
    """The master key may come from a command, which takes its time."""
    async with people(folder) as (_, bob, desk):
        await bob.keep(KEY)
        records = Records(desk.daemon.store)
        executor, params = await bob.task()
        ready = desk.daemon.vault.ready

        async def ready_late() -> MasterKey:
            if event == "disabled":
                desk.daemon.people.put(msgspec.structs.replace(BOB, disabled_at=5))
            elif event == "deleted":
                await bob.delete(KEY)
            else:
                executor.end(params, 1)
                await desk.ended(params.session_id, params.task_id)
            return await ready()

        desk.daemon.vault._key = None
        desk.daemon.vault.ready = ready_late  # type: ignore[method-assign]
        with pytest.raises(RpcError):
            await ask(executor, params, KEY)
        assert [each["code"] for each in records.of("credential.refused")] == [code]
        assert records.of("credential.delivered") == []


async def test_one_that_cannot_be_opened_is_told_and_recorded_as_failed(folder: Path):
    async with people(folder) as (ann, bob, desk):
        await ann.keep(KEY, "sk-of-ann-0001")
        await bob.keep(KEY, "sk-of-bob-0002")
        records = Records(desk.daemon.store)
        # Somebody with access to the database gives Ann's key to Bob.
        store = desk.daemon.store
        [(sealed,)] = await store.read("SELECT sealed FROM credentials WHERE user_id = 'ann'")
        await store.commit(
            Write([Statement("UPDATE credentials SET sealed = ? WHERE user_id = 'bob'", (sealed,))])
        )
        with pytest.raises(RpcError, match="cannot be opened") as caught:
            await bob.ask(KEY)
        assert caught.value.code == "master_key_unusable"
        assert [each["result"] for each in records.of("credential.refused")] == ["failed"]
        assert records.of("credential.delivered") == []

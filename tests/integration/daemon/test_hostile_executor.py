"""An executor that lies harms its own task, and nobody else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec import Raw

from agor.daemon.services.stamps import now
from agor.errors import TokenRefused, UnknownTask
from agor.protocol.methods import REQUEST_PERMISSION, ExecutePromptParams
from tests.contract.waiting import until
from tests.integration.daemon.asker import Asker, acting, ask_for_key, keep, question
from tests.integration.daemon.hostile import Act, Hostile
from tests.integration.daemon.in_process import desk_in, soon


async def forge_a_token(executor: Hostile, params: ExecutePromptParams) -> None:
    executor.report(params, 1, session_token="x" * 43)


async def name_another_task(executor: Hostile, params: ExecutePromptParams) -> None:
    executor.report(params, 1, task_id="01a1e227-890b-702a-bc46-85ffcc56a09e")


async def leave_a_gap(executor: Hostile, params: ExecutePromptParams) -> None:
    executor.report(params, 1)
    executor.report(params, 3)


async def begin_in_the_middle(executor: Hostile, params: ExecutePromptParams) -> None:
    executor.report(params, 1_000_000)


async def talk_nonsense(executor: Hostile, params: ExecutePromptParams) -> None:
    executor.report(params, 1, event_type="block_start", event_data=Raw(b'{"kind":"nothing"}'))


async def invent_an_event(executor: Hostile, params: ExecutePromptParams) -> None:
    executor.report(params, 1, event_type="task", event_data=Raw(b"{}"))


async def go_on_after_the_end(executor: Hostile, params: ExecutePromptParams) -> None:
    result = Raw(b'{"status":"completed","message_count":0,"token_usage":{}}')
    executor.report(params, 1, event_type="task_result", event_data=result)
    executor.report(params, 2)


async def count_beyond_all_numbers(executor: Hostile, params: ExecutePromptParams) -> None:
    executor.report(
        params, 1, event_type="block_start", event_data=Raw(b'{"block_id":"a","kind":"text"}')
    )
    endless = Raw(b'{"block_id":"a","deltas":0,"length":1%b}' % (b"0" * 30))
    executor.report(params, 2, event_type="block_complete", event_data=endless)
    executor.end(params, 3)


async def name_a_block_nul(executor: Hostile, params: ExecutePromptParams) -> None:
    executor.report(
        params, 1, event_type="block_start",
        event_data=Raw(b'{"block_id":"a\\u0000","kind":"text"}'),
    )  # fmt: skip


async def flood(executor: Hostile, params: ExecutePromptParams) -> None:
    for number in range(1, 4000):
        executor.report(params, number, {"level": "info", "message": "x" * 1000})


LIES = [
    forge_a_token, name_another_task, leave_a_gap, begin_in_the_middle, talk_nonsense,
    invent_an_event, count_beyond_all_numbers, name_a_block_nul, flood,
]  # fmt: skip


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
async def test_who_lies_is_ended_and_the_others_go_on(folder: Path, lie: Act):
    async with desk_in(
        folder,
        acting(lie),
        execution__outbox_bytes=65536,
        execution__max_line_bytes=65536,
    ) as desk:
        liars, honest = await desk.session(), await desk.session()
        bad = await desk.ended(liars, await desk.prompt(liars, "lie"))
        assert bad.status == "failed"
        assert bad.error is not None
        assert "broke the protocol" in bad.error.message
        fine = await desk.ended(honest, await desk.prompt(honest, "be good"))
        assert fine.status == "completed"
        # The liar's session, too, has a future.
        again = await desk.ended(liars, await desk.prompt(liars, "better now"))
        assert again.status == "completed"


async def test_what_comes_after_the_end_of_a_task_is_not_stored(folder: Path):
    async with desk_in(folder, lambda: Hostile(go_on_after_the_end)) as desk:
        session = await desk.session()
        task = await desk.ended(session, await desk.prompt(session, "x"))
        assert task.status == "completed"
        channel = await desk.daemon.feed.open(desk.who, session, 0)
        await soon(channel.line.flushed())
        chunk = await channel.read(0)
        assert chunk is not None
        assert b'"message":"2"' not in b"".join(chunk.bodies)


async def test_an_event_that_was_sent_twice_is_stored_once_and_acknowledged(folder: Path):
    made: list[Hostile] = []

    async def twice(executor: Hostile, params: ExecutePromptParams) -> None:
        for _ in range(2):
            executor.report(params, 1)
            executor.report(params, 2)
        executor.end(params, 3)

    def make() -> Hostile:
        made.append(Hostile(twice))
        return made[-1]

    async with desk_in(folder, make) as desk:
        session = await desk.session()
        task = await desk.ended(session, await desk.prompt(session, "x"))
        assert task.status == "completed"
        found = await desk.daemon.store.read("SELECT body FROM events ORDER BY sequence")
        assert sum(b'"type":"log"' in body for (body,) in found) == 2
        async with asyncio.timeout(10):
            while not made[0].acknowledged or made[0].acknowledged[-1] != (task.task_id, 3):
                await asyncio.sleep(0.001)


# ── tokens ───────────────────────────────────────────────────────────────────────────────────


async def test_there_is_no_key_and_that_is_said(folder: Path):
    asker = Asker()
    async with desk_in(folder, asker.make) as desk:
        executor, params = await asker.task_of(desk)
        with pytest.raises(Exception, match="no such credential: 'ANTHROPIC_API_KEY'") as caught:
            await ask_for_key(executor, params.session_token)
        assert caught.value.code == "no_such_credential"  # type: ignore[attr-defined]


async def test_a_token_is_good_for_its_own_executor_only(folder: Path):
    asker = Asker()
    async with desk_in(folder, asker.make) as desk:
        mine, _ = await asker.task_of(desk)
        _, others = await asker.task_of(desk)
        with pytest.raises(TokenRefused, match="another executor"):
            await ask_for_key(mine, others.session_token)


async def test_a_token_is_good_for_its_own_task_only(folder: Path):
    asker = Asker()
    async with desk_in(folder, asker.make) as desk:
        executor, params = await asker.task_of(desk)
        _, other = await asker.task_of(desk)
        asked = question(params, task_id=other.task_id)
        with pytest.raises(TokenRefused, match="another task"):
            await soon(executor.peer.call(REQUEST_PERMISSION, asked))


async def test_a_token_ends_with_its_task(folder: Path):
    asker = Asker()
    async with desk_in(folder, asker.make) as desk:
        executor, params = await asker.task_of(desk)
        executor.end(params, 1)
        await desk.ended(params.session_id, params.task_id)
        with pytest.raises(TokenRefused, match="not known"):
            await ask_for_key(executor, params.session_token)


async def test_a_token_expires(folder: Path):
    asker = Asker()
    async with desk_in(folder, asker.make, execution__session_token_expiration_ms=1) as desk:
        executor, params = await asker.task_of(desk)
        made = now()
        await until(lambda: now() > made + 1)
        with pytest.raises(TokenRefused, match="expired"):
            await ask_for_key(executor, params.session_token)


async def test_a_token_with_one_use_gives_one_key_and_any_number_of_events(folder: Path):
    asker = Asker()
    async with desk_in(folder, asker.make, execution__session_token_max_uses=1) as desk:
        executor, params = await asker.task_of(desk)
        executor.report(params, 1)
        executor.report(params, 2)
        with pytest.raises(Exception, match="no such credential"):
            await ask_for_key(executor, params.session_token)
        await keep(desk)
        await ask_for_key(executor, params.session_token)
        with pytest.raises(TokenRefused, match="used 1 times"):
            await ask_for_key(executor, params.session_token)
        executor.end(params, 3)
        assert (await desk.ended(params.session_id, params.task_id)).status == "completed"


async def test_a_token_is_stored_as_a_hash_only(folder: Path):
    asker = Asker()
    async with desk_in(folder, asker.make) as desk:
        _, params = await asker.task_of(desk)
    for path in (folder / "home").rglob("*"):
        if path.is_file():
            assert params.session_token.encode() not in path.read_bytes(), path


async def test_a_question_of_a_task_that_has_ended_is_refused(folder: Path):
    asker = Asker()
    async with desk_in(folder, asker.make) as desk:
        executor, params = await asker.task_of(desk)
        executor.end(params, 1)
        await desk.ended(params.session_id, params.task_id)
        with pytest.raises((TokenRefused, UnknownTask)):
            await soon(executor.peer.call(REQUEST_PERMISSION, question(params)))

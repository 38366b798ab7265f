"""A POST that is repeated with its key: one effect, one answer."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.api.raw import RawConnection, spelled
from tests.api.serving import Served, serving
from tests.contract.waiting import soon, until


async def create(served: Served, key: str | None, **members: object) -> httpx.Response:
    new = {"agentic_tool": "scripted", "workspace": str(served.folder), **members}
    headers = {} if key is None else {"idempotency-key": key}
    return await served.ask.post("/sessions", json=new, headers=headers)


async def test_a_repeated_post_has_one_effect_and_one_answer(served: Served) -> None:
    first = await create(served, "key-1", title="one")
    again = await create(served, "key-1", title="one")
    assert first.status_code == again.status_code == 201
    assert first.content == again.content
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert len((await served.ask.get("/sessions")).json()["items"]) == 1


async def test_without_a_key_every_post_counts(served: Served) -> None:
    await create(served, None)
    await create(served, None)
    assert len((await served.ask.get("/sessions")).json()["items"]) == 2


async def test_a_key_is_of_one_request(served: Served) -> None:
    await create(served, "key-1", title="one")
    other = await create(served, "key-1", title="two")
    assert other.status_code == 422
    assert "Idempotency-Key" in other.json()["detail"]
    assert (await create(served, "key-2", title="two")).status_code == 201


async def test_it_is_what_was_meant_that_counts_not_how_it_was_spelled(served: Served) -> None:
    first = await create(served, "key-1", title="one", permission_mode="default")
    headers = {"idempotency-key": "key-1", "content-type": "application/json"}
    body = f' {{"title": "\\u006fne", "workspace": "{served.folder}", "agentic_tool":"scripted"}} '
    again = await served.ask.post("/sessions", content=body, headers=headers)
    assert again.content == first.content


async def test_a_prompt_runs_once_however_often_it_is_sent(served: Served) -> None:
    session_id = await served.new_session()
    answers = [
        await served.ask.post(
            f"/sessions/{session_id}/prompt",
            json={"prompt": "once"},
            headers={"idempotency-key": "p"},
        )
        for _ in range(3)
    ]
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.content for answer in answers}) == 1
    tasks = (await served.ask.get(f"/sessions/{session_id}/tasks")).json()["items"]
    assert len(tasks) == 1


async def test_the_same_key_for_another_session_is_another_request(served: Served) -> None:
    one, two = await served.new_session(), await served.new_session()
    headers = {"idempotency-key": "p"}
    first = await served.ask.post(f"/sessions/{one}/prompt", json={"prompt": "x"}, headers=headers)
    second = await served.ask.post(f"/sessions/{two}/prompt", json={"prompt": "x"}, headers=headers)
    assert (first.status_code, second.status_code) == (202, 422)


async def test_a_refused_request_uses_no_key_up(served: Served) -> None:
    refused = await create(served, "key-1", workspace="/nowhere/at/all")
    assert refused.status_code == 422
    assert (await create(served, "key-1")).status_code == 201


@pytest.mark.parametrize("key", ["", " ", "a b", "a" * 256, "ä", "a\tb"])
async def test_a_key_has_a_form(served: Served, key: str) -> None:
    body = f'{{"agentic_tool":"scripted","workspace":"{served.folder}"}}'.encode()
    async with await RawConnection.open(served.port) as connection:
        await connection.send(spelled("POST", "/sessions", served.token, body, idempotency_key=key))
        answer = await connection.answer()
    assert answer.status == 422
    assert "Idempotency-Key" in answer.json["detail"]


async def test_the_longest_key_is_taken(served: Served) -> None:
    assert (await create(served, "~" * 255)).status_code == 201
    assert (await create(served, "~" * 255)).headers["idempotency-replayed"] == "true"


class Slow:
    """Sessions that are made when the test says so."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.begun = asyncio.Event()
        self.go = asyncio.Event()

    async def create(self, *asked: Any) -> Any:
        self.begun.set()
        await self.go.wait()
        return await self._inner.create(*asked)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


async def test_while_it_is_under_way_it_cannot_be_repeated(tmp_path: Any) -> None:
    made: list[Slow] = []

    def slow(services: Any) -> dict[str, Any]:
        made.append(Slow(services.sessions))
        return {"sessions": made[0]}

    async with serving(tmp_path, change=slow) as served:
        first = asyncio.create_task(create(served, "key-1"))
        await soon(made[0].begun.wait())
        second = await create(served, "key-1")
        assert second.status_code == 409
        assert int(second.headers["retry-after"]) >= 1
        made[0].go.set()
        assert (await soon(first)).status_code == 201
        assert (await create(served, "key-1")).content == first.result().content


async def test_who_hangs_up_gets_the_answer_by_asking_again(tmp_path: Any) -> None:
    made: list[Slow] = []

    def slow(services: Any) -> dict[str, Any]:
        made.append(Slow(services.sessions))
        return {"sessions": made[0]}

    async with serving(tmp_path, change=slow) as served:
        first = asyncio.create_task(create(served, "key-1"))
        await soon(made[0].begun.wait())
        first.cancel()
        made[0].go.set()
        assert served.server._server is not None
        state = served.server._server.server_state
        await until(lambda: not state.tasks)
        again = await create(served, "key-1")
        assert again.headers["idempotency-replayed"] == "true"
        assert len((await served.ask.get("/sessions")).json()["items"]) == 1


async def test_a_receipt_outlives_the_daemon(tmp_path: Any) -> None:
    async with serving(tmp_path) as served:
        first = await create(served, "key-1")
    async with serving(tmp_path) as served:
        again = await create(served, "key-1")
        assert again.content == first.content
        assert again.headers["idempotency-replayed"] == "true"

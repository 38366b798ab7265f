"""The database does not answer: clients and monitoring learn it within seconds."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import httpx
import pytest

from agor.daemon.api import app, pending_writes
from agor.daemon.api.answers import Answer
from agor.daemon.store.base import Write
from agor.daemon.store.sqlite.store import SqliteStore
from agor.errors import NotFound, StoreUnavailable
from tests.api.serving import Served
from tests.api.test_health import figures
from tests.contract.waiting import PATIENCE, soon, until
from tests.store.examples import pid_of_writer
from tests.store.ticking import SILENCE, STALL, Ticks


async def readiness(served: Served) -> int:
    return (await served.ask.get("/readyz")).status_code


async def until_ready(served: Served, status: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while await readiness(served) != status:
            await asyncio.sleep(0.01)


def new_session(served: Served, key: str | None) -> dict[str, Any]:
    return {
        "url": "/sessions",
        "json": {"agentic_tool": "scripted", "workspace": str(served.folder)},
        "headers": {} if key is None else {"idempotency-key": key},
    }


def assert_refused(answer: httpx.Response) -> str:
    assert answer.status_code == 503, answer.text
    problem = answer.json()
    assert problem["code"] == "store_unavailable"
    assert problem["hint"]
    assert answer.headers["retry-after"]
    return str(problem["detail"])


@pytest.mark.parametrize("key", ["one", None])
async def test_a_stopped_writer_keeps_no_client_waiting_and_is_replaced(
    served: Served, key: str | None
) -> None:
    store = served.daemon.store
    assert isinstance(store, SqliteStore)
    ticks = Ticks(store)
    # Nothing else is on its way to the writer when it stops.
    await soon(store.commit(Write([])))
    stopped = pid_of_writer(store)
    os.kill(stopped, signal.SIGSTOP)
    waiting = asyncio.create_task(served.ask.post(**new_session(served, key)))
    await until(lambda: store._scribe._group)
    ticks.pass_by(STALL)
    assert await readiness(served) == 503
    assert (await figures(served))["agor_store_available"] == 0
    # What comes now is refused without waiting, and reading goes on.
    refused = await served.ask.post(**new_session(served, "two"))
    assert "not known" not in assert_refused(refused)
    assert (await served.ask.get("/sessions")).json()["items"] == []
    assert "not known whether this was stored" in assert_refused(await soon(waiting))
    hint = (await waiting).json()["hint"]
    if key is None:
        assert "Idempotency-Key" not in hint
    else:
        assert "Repeat it with the same Idempotency-Key" in hint
    # Its key is still in use, and that is not what whoever repeats it has to know.
    assert_refused(await served.ask.post(**new_session(served, key)))

    ticks.pass_by(SILENCE)
    await until_ready(served, 200)
    assert pid_of_writer(store) != stopped
    assert (await figures(served))["agor_store_available"] == 1
    # What was refused has not happened, and can be repeated under its key.
    assert (await served.ask.get("/sessions")).json()["items"] == []
    made = await served.ask.post(**new_session(served, key))
    assert made.status_code == 201, made.text
    assert len((await served.ask.get("/sessions")).json()["items"]) == 1


@pytest.mark.parametrize("outcome", [Answer(201), NotFound("there is no such session")])
async def test_a_client_gets_its_error_though_the_work_ends_at_that_very_moment(
    served: Served, monkeypatch: pytest.MonkeyPatch, outcome: Answer | NotFound
) -> None:
    stall = StoreUnavailable("the database has not answered for 6 s", hint="Look at its disk.")

    async def end_as_the_client_is_refused(*_: object) -> Answer:
        patch.setattr(served.app._writes, "_stall", lambda: stall)
        served.app._writes._check()
        if isinstance(outcome, NotFound):
            raise outcome
        return outcome

    with monkeypatch.context() as patch:
        patch.setattr(app, "_handle", end_as_the_client_is_refused)
        patch.setattr(pending_writes, "_CHECK_SECONDS", 0.0)
        answer = await soon(served.ask.post(**new_session(served, None)))
    assert "not known whether this was stored" in assert_refused(answer)
    # The connection is whole.
    assert (await served.ask.get("/sessions")).json()["items"] == []


async def test_what_the_store_refuses_by_itself_is_known_not_to_be_stored(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    stall = StoreUnavailable("the database has not answered for 6 s", hint="Look at its disk.")

    async def refuse_after_a_look(*_: object) -> Answer:
        patch.setattr(served.app._writes, "_stall", lambda: stall)
        served.app._writes._check()
        await asyncio.sleep(0)
        raise stall.again()

    with monkeypatch.context() as patch:
        patch.setattr(app, "_handle", refuse_after_a_look)
        answer = await soon(served.ask.post(**new_session(served, None)))
    assert "not known" not in assert_refused(answer)

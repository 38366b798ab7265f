"""Every error as its client sees it, and what is never shown."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
import structlog
from structlog.testing import capture_logs

from agor import errors
from agor.daemon.api import app
from agor.daemon.api.problems import STATUSES, row_of
from agor.daemon.api.routes import ROUTES
from agor.daemon.api.services import Services
from agor.errors import AgorError
from tests.api.serving import Served, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: What a client is told of each error that a service can raise.
EXPECTED: dict[type[AgorError], int] = {
    errors.BadInput: 400,
    errors.BadConfig: 400,
    errors.UnknownUser: 400,
    errors.RequestRefused: 400,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.TimedOut: 408,
    errors.Conflict: 409,
    errors.TooLarge: 413,
    errors.TooManyAttempts: 429,
    errors.Unprocessable: 422,
    errors.Disconnected: 503,
    errors.PeerStalled: 503,
    errors.Overloaded: 503,
    errors.PoolError: 503,
    errors.PoolExhausted: 503,
    errors.PoolClosed: 503,
    errors.ImpersonationRefused: 503,
    errors.LauncherFailed: 503,
    errors.ExecutorFailed: 503,
    errors.StoreUnavailable: 503,
    errors.GitFailed: 503,
    errors.MasterKeyUnusable: 503,
    errors.WorkspaceUnreachable: 422,
}

#: What a client is told nothing of: it would be a bug of ours.
HIDDEN: list[Exception] = [
    errors.AgorError("inner workings"),
    errors.StoreUnusable("inner workings"),
    errors.InternalError("inner workings"),
    errors.DaemonRunning("inner workings"),
    errors.ParseError("inner workings"),
    ValueError("inner workings"),
    AssertionError("inner workings"),
    KeyError("inner workings"),
    RecursionError("inner workings"),
    MemoryError("inner workings"),
]


class Raising:
    """A service that fails with what the test says, whatever it is asked."""

    def __init__(self) -> None:
        self.error: Exception = ValueError()

    def __getattr__(self, name: str) -> Any:
        async def fail(*_: object) -> None:
            raise self.error

        return fail


sessions = Raising()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def failing(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    def change(services: Services) -> dict[str, Any]:
        return {"sessions": sessions}

    async with serving(tmp_path_factory.mktemp("failing"), change=change) as one:
        yield one


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    structlog.reset_defaults()
    # One that was used before, under the configuration of another test, keeps that for good.
    monkeypatch.setattr(app, "log", structlog.get_logger("agor.api"))
    with capture_logs() as lines:
        yield lines


@pytest.mark.parametrize("kind", EXPECTED, ids=lambda kind: kind.__name__)
async def test_an_error_is_told_as_a_problem(failing: Served, kind: type[AgorError]) -> None:
    sessions.error = kind("what happened", hint="what to do")
    answer = await failing.ask.get("/sessions")
    row = row_of(kind)
    assert row is not None
    assert answer.status_code == EXPECTED[kind]
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": f"urn:agor:error:{kind.code}",
        "title": row[1],
        "status": EXPECTED[kind],
        "detail": "what happened",
        "code": kind.code,
        "hint": "what to do",
    }


async def test_every_row_of_the_table_has_a_case_here() -> None:
    hidden = {kind for kind, (status, _) in STATUSES.items() if status == 500}
    assert set(STATUSES) - hidden <= set(EXPECTED)


@pytest.mark.parametrize("error", HIDDEN, ids=lambda error: type(error).__name__)
async def test_what_nobody_foresaw_is_logged_once_and_not_told(
    failing: Served, logged: list[Any], error: Exception
) -> None:
    sessions.error = error
    answer = await failing.ask.get("/sessions")
    assert answer.status_code == 500
    assert answer.json()["code"] == "internal_error"
    assert "inner workings" not in answer.text
    assert "Traceback" not in answer.text
    (line,) = logged
    assert line["event"] == "request_failed"
    assert line["route"] == "GET /sessions"
    assert line["exc_info"] is error


async def test_a_foreseen_error_is_not_logged_as_a_fault(
    failing: Served, logged: list[Any]
) -> None:
    sessions.error = errors.NotFound("no such thing")
    assert (await failing.ask.get("/sessions")).status_code == 404
    assert logged == []


async def test_the_token_is_in_no_log(failing: Served, logged: list[Any]) -> None:
    sessions.error = ValueError("broken")
    await failing.ask.get("/sessions")
    assert logged
    assert failing.token not in repr(logged)


@pytest.mark.parametrize(
    "kind", [errors.StoreUnavailable, errors.PoolExhausted, errors.PoolClosed, errors.Overloaded]
)
async def test_what_passes_says_when_to_come_again(failing: Served, kind: type[AgorError]) -> None:
    sessions.error = kind("not now")
    answer = await failing.ask.get("/sessions")
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1


async def test_a_failed_request_leaves_the_connection_and_the_daemon_well(failing: Served) -> None:
    for error in HIDDEN:
        sessions.error = error
        assert (await failing.ask.get("/sessions")).status_code == 500
        assert (await failing.ask.get("/livez")).status_code == 200


async def test_every_error_that_a_route_names_has_a_status() -> None:
    for route in ROUTES:
        for kind in route.errors:
            row = row_of(kind)
            assert row is not None
            assert row[0] < 500 or row[0] == 503

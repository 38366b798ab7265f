"""Requests made up from the OpenAPI document: no 500, and no answer that it does not declare."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.schemas import BaseSchema

from agor.daemon.api import openapi
from agor.daemon.api.routes import ROUTES
from tests.api.serving import Served
from tests.api.threaded import served_in_a_thread

DOCUMENT = openapi.describe(ROUTES)
OPERATIONS = [(path, method) for path, item in DOCUMENT["paths"].items() for method in item]


load_all_checks()


def checks(*names: str) -> list[Any]:
    return [check for check in CHECKS.get_all() if check.__name__ in names]


#: A form cannot say that a folder has to exist, or that a cursor has to be one of ours.
NOT_SAID = checks("positive_data_acceptance")
#: Its judgement is about the data that was made up, not about what we put in its place.
OF_DATA = checks("negative_data_rejection")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("schemathesis")
    with pytest.MonkeyPatch.context() as patch:
        # Shells are opened that read the settings of whose home it is.
        patch.setenv("HOME", str(folder))
        with served_in_a_thread(folder) as one:
            yield one


@pytest.fixture(scope="module")
def there(served: Served) -> dict[str, str]:
    """Something of each kind that exists."""
    with httpx.Client(base_url=served.url, headers=served.headers, trust_env=False) as client:
        new = {"agentic_tool": "scripted", "workspace": str(served.folder)}
        session_id = client.post("/sessions", json=new).json()["session_id"]
        prompt = '[{"tool": {"name": "t", "input": {}, "output": "", "ask": true}}]'
        task = client.post(f"/sessions/{session_id}/prompt", json={"prompt": prompt})
        terminal = client.post(f"/sessions/{session_id}/terminals", json={"shell": "/bin/sh"})
        pending: list[Any] = []
        while not pending:
            pending = client.get("/permissions?status=pending").json()["items"]
        return {
            "session_id": session_id,
            "task_id": task.json()["task_id"],
            "permission_id": pending[0]["permission_id"],
            "terminal_id": terminal.json()["terminal_id"],
        }


@pytest.fixture(scope="module")
def schema() -> BaseSchema:
    return schemathesis.openapi.from_dict(DOCUMENT)


@pytest.mark.parametrize(("path", "method"), OPERATIONS, ids=map(" ".join, OPERATIONS))
def test_every_answer_is_declared(
    schema: BaseSchema, path: str, method: str, served: Served, there: dict[str, str]
) -> None:
    # What `schema.parametrize` does, but while the test runs, and not in every process that looks
    # for tests; and each has a name of its own.
    check = build_operation_test(
        config=schema.config,
        operation=schema[path][method],
        test_func=its_answers_are_declared,
        given_kwargs={},
        feedback=FeedbackSources(),
    )
    check(served=served, there=there)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
def its_answers_are_declared(
    case: schemathesis.Case[Any], served: Served, there: dict[str, str]
) -> None:
    headers = {"Authorization": f"Bearer {served.token}"}
    call: dict[str, Any] = {"base_url": served.url, "headers": headers, "timeout": 10}
    case.call_and_validate(**call, excluded_checks=NOT_SAID)
    real = {name: there[name] for name in case.path_parameters or {} if name in there}
    endless = case.path.endswith("/events") or case.method == "DELETE"
    if real and not endless:
        case.path_parameters = {**case.path_parameters, **real}
        case.call_and_validate(**call, excluded_checks=NOT_SAID + OF_DATA)

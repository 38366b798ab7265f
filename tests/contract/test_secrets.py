"""What leaves a process when something goes wrong, and what must not."""

from __future__ import annotations

import json

import pytest
import structlog

from agor.errors import AgorError, HandlerFailed, TokenRefused
from agor.protocol.methods import EXECUTE_PROMPT, GET_API_KEY, ExecutePromptParams, GetApiKeyParams
from agor.protocol.validation import Method
from tests.contract.raw_end import RawEnd, request
from tests.contract.service import Nothing, Refusal, Service

SECRET = "sk-very-secret"


def failing(error: BaseException):
    """Make a handler that raises at once, and one that raises after a turn."""

    def at_once(_: object) -> None:
        raise error

    async def later(_: object) -> None:
        raise error

    return at_once, later


@pytest.mark.parametrize("when", [0, 1], ids=["at once", "later"])
@pytest.mark.parametrize(
    "error",
    [
        ValueError(SECRET),
        KeyError(SECRET),
        OSError(2, SECRET),
        UnicodeError(SECRET),
        Exception(SECRET),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_unexpected_exception_says_nothing_of_itself(
    raw: RawEnd, service: Service, error: Exception, when: int
):
    service.routes.on(Method("fail", Nothing, type(None)), failing(error)[when])
    with structlog.testing.capture_logs() as logs:
        raw.say(request(1, "fail"))
        line = await raw.line()
    answer = json.loads(line)
    assert (answer["id"], answer["error"]["code"]) == (1, -32603)
    assert answer["error"]["data"]["code"] == "internal_error"
    assert SECRET.encode() not in line
    assert b"Traceback" not in line
    # Who looks after the process finds it in the log.
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["handler_bug"]


@pytest.mark.parametrize("when", [0, 1], ids=["at once", "later"])
async def test_an_error_of_ours_says_its_word_and_what_can_be_done(
    raw: RawEnd, service: Service, when: int
):
    error = Refusal("the workspace is gone", hint="Make it again.")
    service.routes.on(Method("fail", Nothing, type(None)), failing(error)[when])
    answer = await raw.ask(request("x", "fail"))
    assert answer == {
        "jsonrpc": "2.0",
        "id": "x",
        "error": {
            "code": -32000,
            "message": "the workspace is gone",
            "data": {"code": "refusal", "hint": "Make it again."},
        },
    }


@pytest.mark.parametrize(
    ("error", "number", "word"),
    [
        (AgorError("x"), -32000, "error"),
        (HandlerFailed("x", code="shutting_down"), -32000, "shutting_down"),
        (TokenRefused("x"), -32002, "token_refused"),
    ],
)
async def test_each_error_has_its_number_and_its_word(
    raw: RawEnd, service: Service, error: AgorError, number: int, word: str
):
    service.routes.on(Method("fail", Nothing, type(None)), failing(error)[0])
    answer = await raw.ask(request(1, "fail"))
    assert (answer["error"]["code"], answer["error"]["data"]) == (number, {"code": word})


async def test_an_error_with_words_that_cannot_be_sent_is_still_answered(
    raw: RawEnd, service: Service
):
    # As a file name that is not UTF-8 has, once Python has read it.
    error = Refusal("cannot open caf\udce9")
    service.routes.on(Method("fail", Nothing, type(None)), failing(error)[0])
    answer = await raw.ask(request(1, "fail"))
    assert (answer["id"], answer["error"]["code"]) in [(1, -32000), (1, -32603)]
    assert (await raw.ask(request(2, "subtract", 2, 1)))["result"] == 1


async def test_wrong_params_are_refused_without_repeating_the_token(raw: RawEnd, service: Service):
    service.routes.on(EXECUTE_PROMPT, lambda _: None)  # type: ignore[arg-type,return-value]
    service.routes.on(GET_API_KEY, lambda _: None)  # type: ignore[arg-type,return-value]
    for method in ("execute_prompt", "get_api_key"):
        for params in ({"session_token": SECRET}, {"session_token": {"a": SECRET}}, [SECRET, 5]):
            raw.say({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
            line = await raw.line()
            assert json.loads(line)["error"]["code"] == -32602
            assert SECRET.encode() not in line


async def test_the_log_of_a_failing_handler_shows_no_token(raw: RawEnd, service: Service):
    def fail(params: ExecutePromptParams) -> None:
        raise ValueError(f"cannot run {params}")

    service.routes.on(EXECUTE_PROMPT, fail)  # type: ignore[arg-type]
    with structlog.testing.capture_logs() as logs:
        raw.say(
            request(
                1, "execute_prompt", session_token=SECRET, session_id="s", task_id="t",
                agentic_tool="scripted", prompt="p", cwd="/",
            )
        )  # fmt: skip
        await raw.line()
    assert logs
    assert SECRET not in repr(logs)


def test_params_on_their_way_show_no_token():
    params = GetApiKeyParams(session_token=SECRET, credential_key="ANTHROPIC_API_KEY")
    assert SECRET not in repr(params)

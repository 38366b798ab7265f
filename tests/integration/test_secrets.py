"""Keys and tokens: in no log, no event, no command line and no environment."""

from __future__ import annotations

import pytest

from agor.protocol.methods import GET_API_KEY, GetApiKeyParams
from tests.contract.waiting import until
from tests.integration.daemon_side import Daemon, Script, daemon
from tests.integration.processes import command_line_and_environment, describe
from tests.integration.wire import request, wire

KEY = "sk-canary-7f3a9d1e5b-LAST"
TOKEN = "token-canary-c0ffee42"
#: A program that shows its own environment and its parent's, says so, and stays.
READ = "env; cat /proc/$PPID/environ /proc/$PPID/cmdline; echo [read]; exec sleep 1000"
SCRIPT: Script = [
    {"key": "ANTHROPIC_API_KEY"},
    {"tool": {"name": "X", "ask": True}},
    {"run": ["sh", "-c", READ]},
]


async def through_a_whole_life(side: Daemon) -> None:
    """Use the key and the token in every way there is, also the wrong ones."""
    side.keys["ANTHROPIC_API_KEY"] = KEY
    side.start(SCRIPT, "task", session_token=TOKEN)
    await side.until(lambda: side.questions)
    for wrong in ({"token": TOKEN[:-1]}, {"token": TOKEN + "x"}):
        with pytest.raises(Exception, match="token"):
            await side.stop("task", **wrong)


@pytest.mark.parametrize("form", ["console", "json"])
async def test_neither_key_nor_token_is_seen_outside(start, form):
    executor = start("--log-format", form, "--log-level", "debug")
    async with daemon(executor.path) as side:
        await through_a_whole_life(side)
        # A canary in every place where a careless log line would pick it up.
        await _say_nonsense(executor.path)
        assert TOKEN.encode() not in command_line_and_environment(executor.pid)
        assert KEY.encode() not in command_line_and_environment(executor.pid)
        await side.stop("task", token=TOKEN, reason="enough")
        await side.prompt([{"fail": "on purpose"}], session_token=TOKEN)
        await side.prompt([{"crash": 0}], session_token=TOKEN)
        told = side.wire_text()
        await side.shutdown(0)
    assert await executor.ended() == 0
    assert "…LAST" in told
    assert KEY not in told
    assert KEY not in executor.log
    assert TOKEN not in executor.log
    assert TOKEN not in told, "the token is the envelope's, not the event's"


async def _say_nonsense(path) -> None:
    with wire(path) as connection:
        secret = {"session_token": TOKEN, "api_key": KEY}
        connection.send(request(1, "execute_prompt", secret))
        connection.send(request(2, "stop_task", secret | {"task_id": 5}))
        connection.send(request(3, "get_api_key", secret))
        connection.send(b'{"jsonrpc":"2.0","id":99,"result":{"api_key":"' + KEY.encode() + b'"}}\n')
        connection.send(b'{"jsonrpc":"2.0","id":98,"result":"' + KEY.encode() + b'","error":5}\n')
        connection.send(b'{"api_key":"' + KEY.encode() + b'"\n')
        for _ in range(3):
            assert KEY not in str(connection.read())


async def test_the_programs_a_task_runs_see_no_key_and_no_token(start):
    executor = start()
    script: Script = [{"key": "ANTHROPIC_API_KEY"}, SCRIPT[2]]  # type: ignore[list-item]
    async with daemon(executor.path) as side:
        side.keys["ANTHROPIC_API_KEY"] = KEY
        run = side.start(script, "task", session_token=TOKEN)
        await side.until(lambda: "[read]" in side.text("task"))
        assert "agor.executor.main" in side.text("task")
        # What is seen of a program while it becomes another one is nothing at all.
        await until(lambda: any("sleep" in describe(pid) for pid in executor.offspring()))
        children = executor.offspring()
        assert children
        for pid in {executor.pid, *children}:
            seen = command_line_and_environment(pid)
            assert seen
            assert KEY.encode() not in seen
            assert TOKEN.encode() not in seen
        await side.stop("task", token=TOKEN)
        await run
        assert KEY not in side.text("task")
        assert TOKEN not in side.text("task")


@pytest.mark.parametrize("answer", [{"api_key": 5, "key": KEY}, {"key": KEY}, KEY, [KEY]])
async def test_an_answer_with_a_key_in_the_wrong_place_is_not_quoted(start, answer):
    executor = start("--log-level", "debug")
    side = Daemon()
    del side.routes[GET_API_KEY.name]
    side.routes.on(GET_API_KEY, lambda _: answer)  # the wrong form, on purpose
    try:
        await side.connect(executor.path)
        result = await side.prompt([{"key": "ANTHROPIC_API_KEY"}], "task", session_token=TOKEN)
    finally:
        await side.close()
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.code == "invalid_result"
    assert KEY not in side.wire_text()
    assert KEY not in str(result)
    assert KEY not in executor.log


def test_the_forms_themselves_hide_their_secrets_when_printed():
    params = GetApiKeyParams(session_token=TOKEN, credential_key="ANTHROPIC_API_KEY")
    assert TOKEN not in repr(params)
    assert TOKEN not in f"{params} {[params]}"


async def test_a_key_that_an_error_repeats_is_not_told(start, socket_path):
    """An agent's program may say it as it dies, and a provider as it refuses."""
    start()
    key = "sk-that-somebody-repeats-0123456789"
    async with daemon(socket_path, keys={"ANTHROPIC_API_KEY": key}) as side:
        script: Script = [{"key": "ANTHROPIC_API_KEY"}, {"fail": f"refused: {key} is not known"}]
        result = await side.prompt(script)
        assert result.error is not None
        assert result.error.message == "refused: … is not known"
        assert key not in side.wire_text()

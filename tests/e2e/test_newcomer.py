"""What a newcomer would try: the commands as they are installed, and the two lines with `nc`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import agor
from tests.integration.executor_process import ExecutorProcess, start_command
from tests.integration.processes import PATIENCE, Mark

PING = '{"jsonrpc":"2.0","id":"1","method":"ping","params":{}}'
PONG = re.compile(r'^\{"jsonrpc":"2\.0","id":"1","result":\{"pong":true,"timestamp":\d{13}\}\}\n$')

needs_nc = pytest.mark.skipif(shutil.which("nc") is None, reason="nc is not installed")


def run(command: list[str | Path], **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        command, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, **more
    )


@pytest.fixture
def executor(installed: Path, tmp_path: Path) -> Iterator[ExecutorProcess]:
    """`agor-executor --socket PATH`, as written."""
    path = tmp_path / "executor.sock"
    command = [str(installed / "agor-executor")]
    running = start_command("--socket", str(path), path=path, command=command)
    try:
        running.wait_logged("listening")
        yield running
    finally:
        running.clean_up()


@needs_nc
def test_a_ping_by_hand_is_answered_while_nc_stays(executor, mark: Mark):
    line = f"echo '{PING}' | nc -U {executor.path}"
    with subprocess.Popen(
        ["sh", "-c", line], stdout=subprocess.PIPE, text=True, env=mark.env
    ) as shell:
        assert shell.stdout is not None
        try:
            assert PONG.match(shell.stdout.readline())
            assert shell.poll() is None, "nc without -N waits for the other end to hang up"
        finally:
            mark.end_all()


@needs_nc
def test_a_ping_by_hand_is_answered_and_nc_ends_with_its_input(executor):
    done = run(["sh", "-c", f"echo '{PING}' | nc -N -U {executor.path}"])
    assert done.returncode == 0
    assert PONG.match(done.stdout)


@needs_nc
def test_a_prompt_by_hand_shows_its_events_and_its_result(executor):
    params = {
        "session_token": "t",
        "session_id": "s",
        "task_id": "by-hand",
        "agentic_tool": "scripted",
        "prompt": "hello world",
        "cwd": "/",
    }
    request = {"jsonrpc": "2.0", "id": 1, "method": "execute_prompt", "params": params}
    done = subprocess.run(
        ["nc", "-N", "-U", str(executor.path)],
        input=json.dumps(request) + "\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    *events, answer = map(json.loads, done.stdout.splitlines())
    deltas = [e for e in events if e["params"]["event_type"] == "block_delta"]
    assert "".join(d["params"]["event_data"]["text"] for d in deltas) == "hello world"
    assert answer["id"] == 1
    assert answer["result"]["status"] == "completed"


@needs_nc
def test_nonsense_by_hand_is_answered_with_what_is_wrong(executor):
    done = run(["sh", "-c", f"echo 'hello?' | nc -N -U {executor.path}"])
    error = json.loads(done.stdout)["error"]
    assert error["code"] == -32700
    assert error["data"]["code"] == "parse_error"


@needs_nc
def test_after_nc_has_gone_the_next_one_is_served(executor):
    for _ in range(3):
        done = run(["sh", "-c", f"echo '{PING}' | nc -N -U {executor.path}"])
        assert PONG.match(done.stdout)
    assert executor.running


@pytest.mark.parametrize("command", ["agor", "agor-executor"])
def test_the_version_is_told(installed, command):
    done = run([installed / command, "--version"])
    assert (done.returncode, done.stdout) == (0, f"agor {agor.__version__}\n")


@pytest.mark.parametrize("command", ["agor", "agor-executor"])
def test_help_says_what_there_is(installed, command):
    done = run([installed / command, "--help"])
    assert done.returncode == 0
    assert ("demo" if command == "agor" else "--socket") in done.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "--socket"),
        (["--socket", "a", "--stdio"], "--stdio"),
        (["--no-such-flag"], "--socket"),
        (["--stdio", "--orphan-timeout-ms", "0"], "--orphan-timeout-ms"),
        (["--stdio", "--orphan-timeout-ms", "soon"], "--orphan-timeout-ms"),
        (["--stdio", "--outbox-bytes", "-5"], "--outbox-bytes"),
        (["--stdio", "--log-level", "loud"], "--log-level"),
        (["--listen-fd", "three"], "--listen-fd"),
    ],
)
def test_a_command_line_that_means_nothing_gets_the_usage_and_exit_code_two(
    installed, arguments, named
):
    done = run([installed / "agor-executor", *arguments])
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("usage: agor-executor")
    last = done.stderr.splitlines()[-1]
    assert named in last
    assert "_positive" not in last, "the words are for people"


def test_agor_alone_shows_its_help(installed):
    done = run([installed / "agor"])
    assert done.returncode in (0, 2)
    assert "demo" in done.stdout + done.stderr

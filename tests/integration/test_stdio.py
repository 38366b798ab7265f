"""The way in through standard input and output: nothing but JSON-RPC lines, whatever happens."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from tests.integration.daemon_side import Script, prompt_params
from tests.integration.executor_process import COMMAND
from tests.integration.processes import PATIENCE

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}
#: Prints through Python itself, while the executor serves and when the interpreter ends.
PRINTING = """
import atexit, sys, threading
from agor.executor import main
take = main.take_standard_streams
def and_print():
    taken = take()
    threading.Timer(0.05, print, ["a stray print"], {"flush": True}).start()
    return taken
main.take_standard_streams = and_print
atexit.register(print, "a late print")
sys.exit(main.main())
"""


def prompt(script: Script, task_id: str = "task") -> dict[str, Any]:
    params = msgspec.to_builtins(prompt_params(script, task_id))
    return {"jsonrpc": "2.0", "id": task_id, "method": "execute_prompt", "params": params}


def converse(
    *messages: dict[str, Any] | str, command: list[str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Write these lines to its standard input, end that, and wait for its end."""
    lines = [m if isinstance(m, str) else json.dumps(m) + "\n" for m in messages]
    return subprocess.run(
        [*(command or COMMAND), "--stdio"],
        input="".join(lines),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def spoken(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Read its standard output, which must be whole JSON-RPC lines and nothing else."""
    assert done.stdout == "" or done.stdout.endswith("\n")
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(message["jsonrpc"] == "2.0" for message in messages)
    return messages


def test_a_question_on_standard_input_is_answered_on_standard_output():
    done = converse(PING)
    assert done.returncode == 0
    (answer,) = spoken(done)
    assert answer["id"] == 1
    assert answer["result"]["pong"] is True


def test_nothing_in_gives_nothing_out():
    done = converse()
    assert (done.returncode, done.stdout) == (0, "")


def test_a_task_is_run_to_its_end_although_no_more_input_comes():
    done = converse(prompt([{"text": "hello"}, {"run": ["echo", "from a child"]}]))
    assert done.returncode == 0
    *events, answer = spoken(done)
    assert answer["id"] == "task"
    assert answer["result"]["status"] == "completed"
    assert [e["params"]["sequence"] for e in events] == list(range(1, len(events) + 1))
    assert events[-1]["params"]["event_type"] == "task_result"


def test_a_child_process_that_writes_to_the_executors_own_output_does_not_reach_the_wire():
    noise = "echo noise > /proc/$PPID/fd/1; echo noise > /dev/stderr; echo said"
    done = converse(prompt([{"run": ["sh", "-c", noise]}]))
    assert done.returncode == 0
    assert spoken(done)[-1]["result"]["status"] == "completed"
    assert "noise" in done.stderr


def test_a_print_does_not_reach_the_wire():
    script: Script = [{"delay_ms": 300}, {"text": "after the print"}]
    done = converse(prompt(script), command=[sys.executable, "-c", PRINTING])
    assert done.returncode == 0
    assert spoken(done)[-1]["result"]["status"] == "completed"
    assert "a stray print" in done.stderr
    assert "a late print" in done.stderr


def test_what_a_task_runs_cannot_read_the_wire_nor_write_to_it():
    done = converse(prompt([{"run": ["sh", "-c", "ls /proc/self/fd; cat"]}]), PING)
    messages = spoken(done)
    deltas = [
        m["params"]["event_data"]["text"]
        for m in messages
        if m.get("params", {}).get("event_type") == "block_delta"
    ]
    assert "".join(deltas).split() == ["0", "1", "2", "3"]
    assert any(message.get("id") == 1 for message in messages)


@pytest.mark.parametrize(
    "step", [{"key": "ANTHROPIC_API_KEY"}, {"tool": {"name": "X", "ask": True}}]
)
def test_a_task_that_asks_after_the_input_has_ended_does_not_wait_for_ever(step):
    done = converse(prompt([step]))
    assert done.returncode == 0
    *_, event, answer = spoken(done)
    assert event["params"]["event_type"] == "task_result"
    assert answer["result"]["status"] == "failed"
    assert answer["result"]["error"]["code"] == "disconnected"


def test_an_input_that_ends_in_mid_line_is_told_and_is_no_success():
    done = converse(PING, '{"jsonrpc": "2.0", "id": 2, "meth')
    assert done.returncode == 1
    answer, complaint = spoken(done)
    assert answer["id"] == 1
    assert complaint["error"]["code"] == -32700


def test_nonsense_costs_an_error_and_the_next_question_is_answered():
    done = converse("nonsense\n", PING)
    complaint, answer = spoken(done)
    assert (complaint["id"], complaint["error"]["code"]) == (None, -32700)
    assert answer["id"] == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order_while_the_input_is_open(number, launch, tmp_path):
    executor = launch("--stdio", path=tmp_path, stdin=subprocess.PIPE)
    executor.wait_logged("listening")
    executor.send_signal(number)
    assert executor.wait_ended() == 0


def test_a_reader_that_goes_away_ends_it_and_what_it_runs(launch, tmp_path):
    executor = launch("--stdio", path=tmp_path, stdin=subprocess.PIPE)
    script: Script = [{"run": ["sh", "-c", "sleep 1000 & echo up; wait"]}, {"delay_ms": 10**6}]
    executor.process.stdin.write(json.dumps(prompt(script)).encode() + b"\n")
    executor.process.stdin.flush()
    while b"up" not in executor.process.stdout.readline():
        pass
    executor.process.stdout.close()
    executor.process.stdin.close()
    assert executor.wait_ended() == 0
    executor.wait_childless()


def test_without_standard_error_standard_output_still_holds_only_the_wire(tmp_path):
    question = tmp_path / "question"
    question.write_text(json.dumps(PING) + "\n")
    line = f'exec "$@" --stdio --log-format json 2>&- < {question}'
    done = subprocess.run(
        ["sh", "-c", line, "sh", *COMMAND], stdout=subprocess.PIPE, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0
    (answer,) = spoken(done)
    assert answer["id"] == 1

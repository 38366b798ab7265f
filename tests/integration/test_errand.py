"""`agor-executor --errand`: one command, its exit code, and an end with its lifeline."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agor.environments import errands
from agor.environments.identity import UnixIdentity
from tests.integration.processes import PATIENCE
from tests.integration.unix_users import wait_ended

COMMAND = [str(Path(sys.executable).with_name("agor-executor")), "--errand"]


def begin(order: object) -> subprocess.Popen[bytes]:
    """Give an order; standard input stays open."""
    pipe = subprocess.PIPE
    running = subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, stderr=pipe)
    assert running.stdin is not None
    running.stdin.write(json.dumps(order).encode() + b"\n")
    running.stdin.flush()
    return running


def order(*command: str, cwd: str = "/", **env: str) -> dict[str, object]:
    return {"command": command, "env": {"PATH": "/usr/bin:/bin"} | env, "cwd": cwd}


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (order("sh", "-c", "echo $X; pwd; exit 7", cwd="/usr", X="y"), 7, b"y\n/usr\n"),
        (order("no-such-program"), 127, b"there is no such program"),
        (order("true", cwd="/no/such/folder"), 126, b"cannot enter"),
        (order("sh", "-c", "kill -9 $$"), 128 + 9, b""),
        ("nonsense", 2, b"no order"),
    ],
)
def test_it_ends_as_its_command_does(given, code, said):
    with begin(given) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        told = running.stdout.read() + running.stderr.read()
        assert running.wait(PATIENCE) == code
    assert said in told


def test_the_command_and_what_it_started_end_with_the_lifeline():
    script = "trap '' TERM; sleep 1000 & echo $$ $!; wait"
    with begin(order("sh", "-c", script)) as running:
        assert running.stdout is not None
        assert running.stdin is not None
        pids = [int(word) for word in running.stdout.readline().split()]
        running.stdin.close()
        for pid in pids:
            wait_ended(pid)
        assert running.wait(PATIENCE) == 128 + 9


async def test_an_errand_is_cut_in_time_and_in_size_and_gives_what_it_had():
    me = UnixIdentity.current()
    bounds: dict[str, Any] = {"cwd": "/", "env": {}, "max_output": 10}
    slow = await errands.run(me, ["sh", "-c", "echo a; sleep 1000"], timeout=2, **bounds)
    assert (slow.cut, slow.stdout) == ("time", b"a\n")
    long = await errands.run(me, ["yes"], timeout=PATIENCE, **bounds)
    assert (long.cut, long.stdout) == ("size", b"y\n" * 5)
    well = await errands.run(me, ["sh", "-c", "echo b; exit 3"], timeout=PATIENCE, **bounds)
    assert (well.cut, well.stdout, well.exit_code) == (None, b"b\n", 3)

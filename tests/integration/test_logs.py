"""The log: structured, on standard error, and never in the way, whatever becomes of its reader."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.daemon_side import Daemon, daemon
from tests.integration.executor_process import COMMAND
from tests.integration.processes import PATIENCE, Mark


@contextmanager
def executor_logging_to(stderr: int, path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start an executor whose log nobody reads for the test."""
    mark = Mark()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        fd = listener.fileno()
        process = subprocess.Popen(
            [*COMMAND, "--listen-fd", str(fd)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            pass_fds=(fd,),
            start_new_session=True,
            env=mark.env,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE)
        mark.end_all()


async def run_a_life(path: Path, first: Daemon, process: subprocess.Popen[bytes]) -> None:
    """A task, another daemon, another task, and an orderly end."""
    assert (await first.prompt("hello")).status == "completed"
    await first.close()
    async with daemon(path) as second:
        assert (await second.prompt("hello")).status == "completed"
        assert (await second.shutdown(1000)).status == "idle"
    assert process.wait(PATIENCE) == 0


async def test_with_json_every_line_of_the_log_is_an_object_that_says_what_when_and_how_bad(start):
    executor = start("--log-format", "json")
    async with daemon(executor.path) as side:
        await side.prompt("hello")
        await side.prompt([{"fail": "on purpose"}])
        side.ack("no such task", 1)
        await side.shutdown(1000)
    assert await executor.ended() == 0
    entries = executor.log_entries
    assert all({"event", "level", "timestamp"} <= set(entry) for entry in entries)
    events = [entry["event"] for entry in entries]
    assert events[:2] == ["executor_starting", "listening"]
    assert events[-1] == "executor_ended"
    assert {"task_started", "task_ended", "shutting_down"} <= set(events)


@pytest.mark.parametrize("way", ["--socket", "--listen-fd"])
def test_the_first_lines_tell_user_uid_and_socket(way, start, bind):
    flags = ("--log-format", "json")
    executor = bind(*flags) if way == "--socket" else start(*flags)
    executor.wait_logged("listening")
    starting, listening = executor.log_entries
    user = pwd.getpwuid(os.getuid()).pw_name
    assert (starting["user"], starting["uid"], starting["pid"]) == (user, os.getuid(), executor.pid)
    assert (listening["user"], listening["uid"]) == (user, os.getuid())
    assert listening["socket"] == str(executor.path)


async def test_standard_output_stays_empty_with_a_socket(start):
    executor = start("--log-level", "debug")
    async with daemon(executor.path) as side:
        await side.prompt([{"text": "hello"}, {"run": ["sh", "-c", "echo out; echo err >&2"]}])
    executor.send_signal(signal.SIGTERM)
    assert await executor.ended() == 0
    assert executor.process.stdout is not None
    assert executor.process.stdout.read() == b""
    assert "task_started" in executor.log


async def test_a_quiet_level_logs_only_what_matters(start):
    executor = start("--log-level", "error")
    async with daemon(executor.path) as side:
        await side.prompt("hello")
        await side.shutdown(1000)
    assert await executor.ended() == 0
    assert executor.log == ""


async def test_an_executor_whose_log_reader_has_died_goes_on(socket_path):
    reading, writing = os.pipe()
    with executor_logging_to(writing, socket_path) as process:
        os.close(writing)
        async with daemon(socket_path) as side:
            # As when the daemon that read the log is killed.
            os.close(reading)
            await run_a_life(socket_path, side, process)


async def test_an_executor_whose_log_cannot_be_written_goes_on(socket_path):
    full = os.open("/dev/full", os.O_WRONLY)
    with executor_logging_to(full, socket_path) as process:
        os.close(full)
        async with daemon(socket_path) as side:
            await run_a_life(socket_path, side, process)


async def test_an_executor_whose_log_nobody_reads_is_not_held_up_by_what_it_logs(socket_path):
    reading, writing = os.pipe()
    with executor_logging_to(writing, socket_path) as process:
        os.close(writing)
        async with daemon(socket_path) as side:
            for _ in range(3000):
                side.ack("no such task", 1)
            await side.ping()
            await run_a_life(socket_path, side, process)
    os.close(reading)

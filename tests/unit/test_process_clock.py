"""Time-outs of processes: what a starved process waits is not held against it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import uvloop

from agor.linux import process_of
from agor.process_clock import MAX_STRETCH, ProcessClock, wait_for
from agor.protocol.launching import Process

BUSY = "while True: pass"
PATIENCE = 60.0


@contextlib.contextmanager
def process(code: str, cpu: int, *, idle: bool = False) -> Iterator[Process]:
    """A Python process on one processor; an idle one gets what nobody else wants."""

    def place() -> None:
        os.sched_setaffinity(0, {cpu})
        if idle:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))

    started = subprocess.Popen([sys.executable, "-S", "-c", code], preexec_fn=place)
    try:
        found = process_of(started.pid)
        assert found is not None
        yield found
    finally:
        started.kill()
        started.wait()


def passes(seconds: float) -> float:
    """Let time pass, and return how much it was."""
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        time.sleep(0.01)
    return passed


def test_what_a_process_waits_for_a_processor_does_not_count():
    cpu = min(os.sched_getaffinity(0))
    with process(BUSY, cpu), process(BUSY, cpu, idle=True) as starved:
        clock = ProcessClock(starved)
        passed = passes(1.0)
        # The kernel counts what it has waited whenever it runs, which is seldom.
        while clock.elapsed() > passed / 2 and passed < PATIENCE:
            passed += passes(0.1)
        assert passed < PATIENCE


def test_what_a_stopped_process_is_silent_counts():
    with process(BUSY, min(os.sched_getaffinity(0))) as stopped:
        os.kill(stopped.pid, signal.SIGSTOP)
        # The stop takes effect the next time that it runs, which may take a while.
        while Path(f"/proc/{stopped.pid}/stat").read_text().split()[2] != "T":
            time.sleep(0.001)
        clock = ProcessClock(stopped)
        assert passes(0.3) <= clock.elapsed()


def test_an_answer_that_came_while_we_did_not_run_ourselves_is_read():
    async def wait() -> bool:
        near, far = socket.socketpair()
        loop = asyncio.get_running_loop()
        answer = loop.create_future()

        def read() -> None:
            loop.remove_reader(near)
            answer.set_result(near.recv(1))

        with near, far:
            near.setblocking(False)
            loop.add_reader(near, read)
            waiting = asyncio.create_task(wait_for(None, answer, 0.2))
            # Once it waits, nothing of ours runs for longer than that.
            await asyncio.sleep(0)
            far.sendall(b"x")
            passes(0.5)
            return await waiting

    # The loop of the daemon: it looks at its timers first, and then at its sockets.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(wait())


def test_no_time_out_is_stretched_for_ever():
    class Starved(ProcessClock):
        def _run_delay(self) -> float:
            return time.monotonic()

    clock = Starved(None)
    passed = passes(0.1)
    assert clock.elapsed() >= passed / MAX_STRETCH


def test_a_process_that_is_gone_or_unknown_has_a_plain_clock():
    for unknown in (None, Process(pid=2**22 + 1, started=1)):
        clock = ProcessClock(unknown)
        assert passes(0.05) <= clock.elapsed()

"""Rehearses the life of an executor: served, greeted, ended, all in one process.

What is touched and made for the first time costs page faults and milliseconds. A rehearsal in the
launcher has them behind before the fork.
"""

from __future__ import annotations

import asyncio
import os
import socket

import msgspec

from agor.executor.launcher.plan import Plan, make_executor
from agor.protocol.forms import Nothing
from agor.protocol.launching import SpawnParams
from agor.protocol.methods import (
    INITIALIZE,
    PING,
    PROTOCOL_VERSION,
    SHUTDOWN,
    InitializeParams,
    ShutdownParams,
)
from agor.rpc import Routes, unix

#: The task of a rehearsal; nobody is ever called like that.
NAME = "rehearsal"
TASK = msgspec.json.encode(
    SpawnParams(
        executor_id=NAME,
        orphan_timeout_ms=60_000,
        unused_timeout_ms=60_000,
        max_line=1 << 24,
        outbox_bytes=1 << 24,
    )
)


async def rehearse(times: int) -> None:
    """Play it so many times, with nobody listening to the logs."""
    errors = os.dup(2)
    empty = os.open(os.devnull, os.O_WRONLY)
    os.dup2(empty, 2)
    try:
        for _ in range(times):
            await _play()
    finally:
        os.dup2(errors, 2)
        os.close(errors)
        os.close(empty)


def rehearse_plan() -> None:
    """Play as far as there is a plan, which is then dropped."""
    with _listener() as listener:
        Plan(TASK, os.dup(listener.fileno()), [], make_executor()).close()


async def _play() -> None:
    with _listener() as listener:
        address = os.fsdecode(listener.getsockname())
        plan = Plan(TASK, os.dup(listener.fileno()), [], make_executor())
        serving = asyncio.create_task(plan.carry_out())
        peer = await unix.connect(address, Routes())
        greeting = InitializeParams(protocol_version=PROTOCOL_VERSION, daemon_id="rehearsal")
        await peer.call(INITIALIZE, greeting)
        await peer.call(PING, Nothing())
        await peer.call(SHUTDOWN, ShutdownParams(reason="rehearsed", timeout_ms=0))
        await peer.close()
        await serving


def _listener() -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # A name of the kernel's choice, without a file. Others could find it, and are refused.
    listener.bind("")
    listener.listen()
    return listener

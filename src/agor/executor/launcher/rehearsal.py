"""Rehearses the life of an executor: served, greeted, ended, all in one process.

What is touched and made for the first time costs page faults and milliseconds. A rehearsal in the
launcher has them behind before the fork, and one in a spare before its task arrives.
"""

from __future__ import annotations

import asyncio
import os
import socket

from agor.executor.main import serve_listener
from agor.executor.server import Executor, Options
from agor.protocol.methods import (
    INITIALIZE,
    PING,
    PROTOCOL_VERSION,
    SHUTDOWN,
    InitializeParams,
    Nothing,
    ShutdownParams,
)
from agor.rpc import Routes, unix


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


async def _play() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        # A name of the kernel's choice, without a file. Others could find it, and are refused.
        listener.bind("")
        listener.listen()
        address = os.fsdecode(listener.getsockname())
        serving = asyncio.create_task(serve_listener(listener.dup(), Executor(Options())))
        peer = await unix.connect(address, Routes())
        greeting = InitializeParams(protocol_version=PROTOCOL_VERSION, daemon_id="rehearsal")
        await peer.call(INITIALIZE, greeting)
        await peer.call(PING, Nothing())
        await peer.call(SHUTDOWN, ShutdownParams(reason="rehearsed", timeout_ms=0))
        await peer.close()
        await serving

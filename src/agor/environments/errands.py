"""Errands: short commands that the daemon runs as somebody, with output that is kept in bounds.

As ourselves or by setuid they are plain commands. Through sudo they go by `agor-executor --errand`,
which is all that the sudoers file has to allow, and their standard input is a lifeline: they end
when we close it. An errand has no input of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agor.environments.base import check_command
from agor.environments.identity import UnixIdentity, plain_environment, way_to
from agor.environments.impersonation import Launch, plan_launch
from agor.environments.launching import command_as
from agor.environments.local_command import LocalCommand
from agor.errors import BadInput, CommandTimedOut

#: What fits into an empty pipe at once, with room to spare.
_LONGEST_ORDER = 60_000
#: Bytes of standard error that are kept: its end is what tells why.
_MOST_STDERR = 16 * 1024


@dataclass(frozen=True, slots=True)
class Ran:
    """An errand that is over. If it was cut, what it had written until then is here."""

    #: Minus the signal that killed it, where that is known.
    exit_code: int
    stdout: bytes
    stderr: bytes
    cut: Literal["time", "size"] | None = None


class _ThroughSudo(LocalCommand):
    """A command that we may not signal: it ends when its lifeline does."""

    async def kill(self, number: signal.Signals = signal.SIGTERM) -> None:  # noqa: ARG002
        """Let go of it."""
        self.stdin.abandon()


async def run(
    identity: UnixIdentity,
    command: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    timeout: float,
    max_output: int,
) -> Ran:
    """Run a command as somebody, until it ends, or its time or its room is used up.

    Whoever cancels this ends the command, with its group.
    """
    check_command(command, env)
    async with _start(identity, command, plain_environment(identity) | dict(env), cwd, timeout) as (
        running
    ):
        (stdout, too_long), stderr = await asyncio.gather(
            _head(running, max_output), _tail(running.stderr)
        )
        try:
            code = await running.wait()
        except CommandTimedOut:
            return Ran(-signal.SIGTERM, stdout, stderr, "time")
        return Ran(code, stdout, stderr, "size" if too_long else None)


def _start(
    identity: UnixIdentity, command: Sequence[str], env: dict[str, str], cwd: str, timeout: float
) -> LocalCommand:
    if way_to(identity) != "sudo":
        launch = plan_launch(identity, command, env, cwd)
        return LocalCommand(launch, identity, timeout, _forget)
    order = {"command": list(command), "env": env, "cwd": cwd}
    line = json.dumps(order).encode() + b"\n"
    if len(line) > _LONGEST_ORDER:
        raise BadInput(f"the command {command[0]!r} has {len(line)} bytes: that is too long")
    ours = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
    launch = Launch(command_as(identity, ["--errand"]), ours, line)
    return _ThroughSudo(launch, identity, timeout, _forget)


def _forget(_: LocalCommand) -> None:
    """Nobody keeps a list of errands: each is waited for by who sent it."""


async def _head(running: LocalCommand, most: int) -> tuple[bytes, bool]:
    """Keep the beginning of the output; who writes more is ended."""
    kept = bytearray()
    try:
        async for piece in running.stdout:
            kept += piece
            if len(kept) > most:
                await running.kill(signal.SIGKILL)
                del kept[most:]
                return bytes(kept), True
    except CommandTimedOut:
        pass
    return bytes(kept), False


async def _tail(stream: AsyncIterator[bytes]) -> bytes:
    kept = bytearray()
    try:
        async for piece in stream:
            kept += piece
            del kept[:-_MOST_STDERR]
    except CommandTimedOut:
        pass
    return bytes(kept)

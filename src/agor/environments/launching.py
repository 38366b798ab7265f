"""The daemon's side of a launcher: starts one as a Unix identity, and asks it for executors.

A launcher serves a socket that we bound in our own folder, so only we can reach it, and we can
again after a restart. What it gets is an allow-listed environment, that socket, and a log.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from agor.environments.identity import UnixIdentity, plain_environment, way_to
from agor.errors import Disconnected, InvalidResult, LauncherFailed, TimedOut
from agor.linux import shortage
from agor.process_clock import MAX_STRETCH, wait_for
from agor.protocol.envelope import ABSENT, Message, revive_error
from agor.protocol.forms import Nothing
from agor.protocol.launching import HELLO, MAX_PACKET, HelloResult, Process
from agor.protocol.validation import UNREADABLE, Method, name_the_field
from agor.rpc.unix import listen_privately

P = TypeVar("P")
R = TypeVar("R")

_decode = msgspec.json.Decoder(Message).decode


def executor_command() -> Path:
    """Find the program `agor-executor` of this installation."""
    return Path(sys.executable).with_name("agor-executor")


def command_as(identity: UnixIdentity, arguments: Sequence[str]) -> list[str]:
    """Spell the command that runs `agor-executor` as this identity."""
    command = [str(executor_command()), *arguments]
    if way_to(identity) == "sudo":
        return ["sudo", "-n", "-u", identity.name, "--", *command]
    return command


def launcher_command(identity: UnixIdentity, arguments: Sequence[str]) -> list[str]:
    """Spell the command that starts a launcher as this identity."""
    return command_as(identity, ["--launcher", *arguments])


def becoming(identity: UnixIdentity) -> dict[str, Any]:
    """Give the keywords with which Popen becomes this identity, where that is the way."""
    if way_to(identity) != "setuid":
        return {}
    groups = list(identity.groups)
    return {"user": identity.uid, "group": identity.gid, "extra_groups": groups}


def start_launcher(
    identity: UnixIdentity, listener: socket.socket, log: Path, arguments: Sequence[str]
) -> subprocess.Popen[bytes]:
    """Start a launcher that serves this socket; whether it comes up is told by `greet`."""
    # Appended to, since a launcher of earlier may still write there; and never replaced, since a
    # launcher takes a removed log for the end of the folder and all in it.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC | os.O_CLOEXEC
    with os.fdopen(os.open(log, flags, 0o600), "wb") as errors:
        try:
            return subprocess.Popen(
                launcher_command(identity, arguments),
                stdin=listener.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=plain_environment(identity),
                cwd="/",
                start_new_session=True,
                **becoming(identity),
            )
        except OSError as error:
            if (exhausted := shortage(error)) is not None:
                raise exhausted from error
            raise LauncherFailed(
                f"cannot start executors as {identity.name}: {error.strerror or error}",
                hint=f"Can {identity.name} read and run {executor_command()}?",
            ) from error


class LauncherLink:
    """A connection to a launcher."""

    def __init__(self, sock: socket.socket, path: Path) -> None:
        self.path = path
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._ids = count(1)
        self._waiting: dict[object, asyncio.Future[Message]] = {}
        self._closed = asyncio.Event()
        #: Who answers, once greeted.
        self.process: Process | None = None
        #: Whether all that it forks has the agents' libraries.
        self.preloaded = False
        self._loop.add_reader(sock.fileno(), self._receive)

    @classmethod
    def connect(cls, path: Path) -> LauncherLink | None:
        """Connect to a launcher, if one listens there."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.setblocking(False)
        try:
            sock.connect(str(path))
        except OSError:
            sock.close()
            return None
        return cls(sock, path)

    @property
    def open(self) -> bool:
        """Whether the launcher is there, as far as we know."""
        return not self._closed.is_set()

    async def wait_closed(self) -> None:
        """Wait until the launcher is gone."""
        await self._closed.wait()

    async def greet(self, timeout: float) -> HelloResult:
        """Wait until it is up."""
        hello = await self.call(HELLO, Nothing(), timeout=timeout)
        self.process, self.preloaded = hello.process, hello.preloaded
        return hello

    async def call(
        self, method: Method[P, R], params: P, fds: Sequence[int] = (), *, timeout: float
    ) -> R:
        """Ask, with descriptors along, and wait for the answer.

        The time that the launcher waits for a processor is not counted: a launcher on a busy
        machine is slow, and does not hang.
        """
        if not self.open:
            raise Disconnected("the launcher is gone")
        request_id = next(self._ids)
        packet = b"%b%b}" % (method.opening(request_id), msgspec.json.encode(params))
        answer = self._waiting[request_id] = self._loop.create_future()
        try:
            async with asyncio.timeout(timeout * MAX_STRETCH):
                await self._send(packet, fds)
                if not await wait_for(self.process, answer, timeout):
                    raise TimeoutError  # noqa: TRY301 - it is the same as that of the outer bound
            message = answer.result()
        except TimeoutError:
            raise TimedOut(f"the launcher did not answer {method.name} in {timeout:g} s") from None
        finally:
            self._waiting.pop(request_id, None)
            # If sending failed, nobody will look at the answer that cannot come.
            if not answer.cancel() and not answer.cancelled():
                answer.exception()
        if message.error is not ABSENT:
            raise revive_error(message.error)
        try:
            return msgspec.json.decode(message.result, type=method.result)
        except UNREADABLE as error:
            raise InvalidResult(name_the_field(error, f"{method.name} result")) from None

    async def _send(self, packet: bytes, fds: Sequence[int]) -> None:
        while True:
            try:
                socket.send_fds(self._sock, [packet], list(fds))
            except BlockingIOError:
                # It is busy, with a fork for some milliseconds.
                await asyncio.sleep(0.005)
            except OSError as error:
                self.close()
                raise Disconnected(f"the launcher is gone: {error.strerror}") from error
            else:
                return

    def _receive(self) -> None:
        try:
            packet = self._sock.recv(MAX_PACKET)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not packet:
            self.close()
            return
        with contextlib.suppress(*UNREADABLE):
            message = _decode(packet)
            waiting = None if message.id is UNSET else self._waiting.get(message.id)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)

    def close(self) -> None:
        """Hang up; the launcher goes on."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._loop.remove_reader(self._sock.fileno())
        self._sock.close()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(Disconnected("the launcher is gone"))


def bind_control(path: Path) -> socket.socket:
    """Listen for a launcher to be; nobody but us can reach the folder it is in."""
    path.unlink(missing_ok=True)
    return listen_privately(path, socket.SOCK_SEQPACKET)

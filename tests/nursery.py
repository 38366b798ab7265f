"""Programs of ours, forked from a process that has imported what they need, as a launcher does it.

Importing takes longer than most tests, and would be done anew for each. What a program is given is
its own all the same: arguments, environment, folder and descriptors. Only /proc shows the
environment and the command line of the process it was forked from; and at its end, the memory is
left to the kernel.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Literal

# The real one, though for stores of tests it is replaced by what is below.
from agor.daemon.store.sqlite.process import spawn as spawn_real_writer
from tests.integration.processes import PATIENCE

__all__ = ["FIRST_FD", "Forked", "run_agor", "spawn_real_writer", "spawn_writer"]

Kind = Literal["agor", "agor-executor", "warden", "writer"]

_LARGEST = 128 * 1024
_ROOT = Path(__file__).parents[1]
#: The first of the descriptors that a program is given beside its standard streams.
FIRST_FD = 3
#: Above all that a program is given.
_ASIDE = 64


def run_agor(
    *arguments: str | Path,
    env: Mapping[str, str],
    cwd: Path | None = None,
    given: str = "",
    timeout: float = PATIENCE,
) -> subprocess.CompletedProcess[str]:
    """Run the command `agor`, as `subprocess.run` would."""
    words = [str(word) for word in arguments]
    with (
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        stdin.write(given.encode())
        stdin.seek(0)
        streams = (stdin.fileno(), stdout.fileno(), stderr.fileno())
        process = Forked("agor", words, env=env, cwd=cwd, fds=streams)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        told = [os.pread(file.fileno(), file.seek(0, os.SEEK_END), 0) for file in (stdout, stderr)]
    return subprocess.CompletedProcess(
        ["agor", *words], code, told[0].decode(), told[1].decode(errors="replace")
    )


def spawn_writer(line: socket.socket, lock: int) -> Forked:
    """Start the process that writes to SQLite, as `spawn` of its module `process` would."""
    with Path(os.devnull).open("wb") as nothing:
        fds = (line.fileno(), nothing.fileno(), 2, lock)
        return Forked("writer", [], env={}, cwd=Path("/"), fds=fds)


class Forked:
    """A process that is not our child: its guardian tells us about it."""

    stdin: IO[bytes] | None = None
    stdout: IO[bytes] | None = None
    stderr: IO[bytes] | None = None

    def __init__(
        self,
        kind: Kind,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        fds: Sequence[int],
        cwd: Path | None = None,
    ) -> None:
        self._kind = kind
        news, told = os.pipe()
        order = {"arguments": arguments, "env": dict(env), "cwd": cwd and str(cwd)}
        socket.send_fds(_nursery(kind), [json.dumps(order).encode()], [told, *fds])
        os.close(told)
        self._news = os.fdopen(news, "rb")
        self.pid = int(self._news.readline())
        self._code: int | None = None

    def poll(self) -> int | None:
        """Give its exit code, if it has ended."""
        if self._code is None and select.select([self._news], [], [], 0)[0]:
            self._code = os.waitstatus_to_exitcode(int(self._news.readline()))
            self._news.close()
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        if self._code is None:
            select.select([self._news], [], [], timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired(self._kind, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            # Its end is told just after it was reaped.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self.send_signal(signal.SIGKILL)


@functools.cache
def _nursery(kind: Kind) -> socket.socket:
    """Start the process that is forked from; it ends when we do."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        fd = theirs.fileno()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.nursery", kind, str(fd)],
            cwd=_ROOT, pass_fds=(fd,), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip

    @atexit.register
    def close() -> None:
        ours.close()
        process.wait(PATIENCE)

    return ours


# ── the process that is forked from ──────────────────────────────────────────────────────────

#: What is imported once a program is at work.
_NEEDED_BY_COMMANDS = ("agor.client", "agor.cli.showing", "typer._adapters", "rich.table")
_NEEDED_BY_A_DAEMON = (
    *("agor.cli.daemon", "agor.daemon.process", "typer._adapters", "rich.console"),
    # For a database that is made or migrated.
    *("agor.daemon.store.sqlite.store", "agor.daemon.store.schema", "agor.daemon.store.migrate"),
    *("alembic.command", "alembic.op", "sqlalchemy.dialects.sqlite"),
)


def _import_command() -> Callable[[], object]:
    from agor.cli.commands import COMMANDS
    from agor.cli.main import main

    for entry in COMMANDS.values():
        import_module(f"agor.cli.{entry.module}")
    for name in _NEEDED_BY_COMMANDS:
        import_module(name)
    return main


def _import_executor() -> Callable[[], object]:
    from agor.agents import registry
    from agor.executor.main import main

    registry.import_ahead()
    return lambda: sys.exit(main(sys.argv[1:]))


def _import_daemon() -> Callable[[], object]:
    from tests.integration.daemon.warden import main

    for name in _NEEDED_BY_A_DAEMON:
        import_module(name)
    return main


def _import_writer() -> Callable[[], object]:
    from agor.daemon.store.sqlite.writing import main

    return main


_IMPORTS: dict[Kind, Callable[[], Callable[[], object]]] = {
    "writer": _import_writer,
    "agor": _import_command,
    "agor-executor": _import_executor,
    "warden": _import_daemon,
}


def _wait_for_order(line: socket.socket) -> dict[str, Any] | None:
    """Fork whenever we are told to. Returns in what was forked; with nothing, at the end."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        packet, fds, _, _ = socket.recv_fds(line, _LARGEST, _ASIDE)
        if not packet:
            return None
        # Its other end is closed when we have nothing more of what the program was given.
        let_go, ours = os.pipe()
        if os.fork() == 0:
            os.close(ours)
            line.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            told, *given = fds
            if (pid := os.fork()) == 0:
                os.close(told)
                _take(given)
                order: dict[str, Any] = json.loads(packet)
                return order
            _guard(pid, told, given, let_go)
        for fd in (*fds, let_go, ours):
            os.close(fd)


def _guard(pid: int, told: int, given: list[int], let_go: int) -> None:
    """Tell of a program once nobody else has what it was given, and of its end."""
    for fd in given:
        os.close(fd)
    os.read(let_go, 1)
    os.write(told, b"%d\n" % pid)
    os.write(told, b"%d\n" % os.waitpid(pid, 0)[1])
    os._exit(0)


def _take(given: list[int]) -> None:
    """Have descriptors as 0, 1, 2 and so on, and no others."""
    aside = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _ASIDE) for fd in given]
    os.closerange(0, _ASIDE)
    for number, fd in enumerate(aside):
        os.dup2(fd, number, inheritable=number < FIRST_FD)
        os.close(fd)


def _main() -> None:
    kind: Any = sys.argv[1]
    program = _IMPORTS[kind]()
    gc.collect()
    gc.freeze()
    order = _wait_for_order(socket.socket(fileno=int(sys.argv[2])))
    if order is None:
        return
    os.setsid()
    os.environ.clear()
    os.environ.update(order["env"])
    if order["cwd"] is not None:
        os.chdir(order["cwd"])
    # As the installed command is: by its path it finds what is beside it, and has its name.
    sys.modules["__main__"].__package__ = None
    command = "agor" if kind == "warden" else kind
    sys.argv = [str(Path(sys.executable).with_name(command)), *order["arguments"]]
    _run(program)


def _run(program: Callable[[], object]) -> None:
    """Run it to its end, without what an interpreter does then to free its memory.

    It was forked with so much of it that this takes longer than most programs.
    """
    code = 0
    try:
        program()
    except SystemExit as end:
        if isinstance(end.code, str):
            raise
        code = end.code or 0
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _main()

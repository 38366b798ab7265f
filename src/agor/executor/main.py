"""The command `agor-executor`: three ways in, one executor.

Exit codes: 0 it was told to end and did, 1 it failed, 2 bad input.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import sys
from collections.abc import Sequence

import structlog
import uvloop

import agor
from agor import logs
from agor.agents.processes import kill_all_groups
from agor.catalogue import AGENTS_FOLDER
from agor.errors import AgorError, BadInput, BrokenFrame
from agor.executor.server import Executor, Options, unix_user
from agor.rpc import unix
from agor.rpc.listener import Listener
from agor.rpc.stdio import StdioConnection, take_standard_streams

log = structlog.get_logger("agor.executor")

_LARGEST = 2**53
#: Seconds in which the first answer should be out.
_FIRST_ANSWER = 0.005
#: Seconds for requests that are about to be answered when the executor ends.
_LAST_ANSWERS = 0.5


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    _open_missing_streams()
    arguments = _parser().parse_args(argv)
    logs.configure(arguments.log_level, arguments.log_format)
    if arguments.agents_folder is not None:
        os.environ[AGENTS_FOLDER] = arguments.agents_folder
    if arguments.launcher:
        # Imported late: the launcher itself forks what is defined here.
        from agor.executor.launcher.main import launch

        return launch(arguments.orphan_timeout_ms / 1000, preload=arguments.preload)
    options = Options(
        max_line=arguments.max_line_bytes,
        outbox_bytes=arguments.outbox_bytes,
        orphan_timeout=arguments.orphan_timeout_ms / 1000,
        unused_timeout=arguments.orphan_timeout_ms / 1000,
        one_connection=arguments.stdio,
    )
    try:
        return uvloop.run(_run(arguments, options))
    except AgorError as error:
        log.error("cannot_start", code=error.code, why=error.message, hint=error.hint)
        return 2 if isinstance(error, BadInput) else 1


async def _run(arguments: argparse.Namespace, options: Options) -> int:
    log.info(
        "executor_starting", version=agor.__version__, user=unix_user(), uid=os.getuid(),
        pid=os.getpid(),
    )  # fmt: skip
    if arguments.stdio:
        return await _serve_stdio(options)
    if arguments.socket is not None:
        bound = unix.bind(arguments.socket)
        try:
            return await serve_listener(bound.listener, Executor(options), str(bound.path))
        finally:
            bound.remove()
    inherited = unix.inherit(arguments.listen_fd)
    name = inherited.getsockname() or "(unnamed)"
    return await serve_listener(inherited, Executor(options), name)


async def serve_listener(sock: socket.socket, executor: Executor, name: str | None = None) -> int:
    """Serve a listening socket until told to end; with a name, it is told that we do.

    Without one it is a launcher's, and somebody waits for its first answer: the rest comes after.
    Until then a signal is what it was before there was an event loop, the end.
    """
    listener = Listener(sock, executor.make_peer)
    address = sock.getsockname()
    executor.begin(address if isinstance(address, str) and address.startswith("/") else None)
    if name is None:
        asyncio.get_running_loop().call_later(_FIRST_ANSWER, _stop_on_signals, executor)
    else:
        _stop_on_signals(executor)
        log.info("listening", socket=name, user=unix_user(), uid=os.getuid())
    await executor.wait_ended()
    # Who asked for the end is told that it came.
    await listener.close(grace=_LAST_ANSWERS)
    log.info("executor_ended")
    return 0


async def _serve_stdio(options: Options) -> int:
    reading, writing = take_standard_streams()
    executor = Executor(options)
    _stop_on_signals(executor)
    executor.begin()
    connection = await StdioConnection.open(reading, writing, executor.make_peer)
    log.info("listening", socket="(standard input and output)", user=unix_user(), uid=os.getuid())
    ended = asyncio.create_task(executor.wait_ended())
    hung_up = asyncio.create_task(connection.peer.wait_closed())
    await asyncio.wait((ended, hung_up), return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        # There will be no other connection: nobody can ask for what is still running.
        await executor.shut_down("the connection ended", timeout=0)
    await connection.close()
    ending = await hung_up
    log.info("executor_ended", connection=ending.code)
    return 1 if isinstance(ending, BrokenFrame) else 0


def _stop_on_signals(executor: Executor) -> None:
    """End in order on the first signal, at once on the second."""
    loop = asyncio.get_running_loop()
    stopping: set[asyncio.Task[object]] = set()

    def stop(number: signal.Signals) -> None:
        if stopping:
            log.warning("second_signal", signal=number.name)
            kill_all_groups()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        stopping.add(asyncio.create_task(executor.shut_down(number.name, timeout=0)))

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # Who was told to outlive its terminal (nohup) ignores the hang-up already.
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop, number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agor-executor",
        description="Runs coding agents and reports to the agor daemon over JSON-RPC 2.0.",
    )
    way_in = parser.add_mutually_exclusive_group(required=True)
    way_in.add_argument("--socket", metavar="PATH", help="listen at this path, for yourself only")
    way_in.add_argument(
        "--listen-fd", metavar="N", type=int, help="serve a listening socket that was handed down"
    )
    way_in.add_argument("--stdio", action="store_true", help="serve standard input and output")
    way_in.add_argument(
        "--launcher", action="store_true",
        help="start executors for the daemon, whose control socket is standard input",
    )  # fmt: skip
    parser.add_argument(
        "--preload",
        action="store_true",
        help="with --launcher: import the agents' libraries before the first executor is started",
    )
    defaults = Options()
    parser.add_argument(
        "--orphan-timeout-ms", metavar="MS", type=_positive,
        default=int(defaults.orphan_timeout * 1000),
        help="end after this long without any connection (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--agents-folder", metavar="PATH",
        help="where to look for agents' programs before the search path",
    )  # fmt: skip
    parser.add_argument(
        "--max-line-bytes", metavar="N", type=_positive, default=defaults.max_line,
        help="longest line that is read or written (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--outbox-bytes", metavar="N", type=_positive, default=defaults.outbox_bytes,
        help="unacknowledged events to hold before the agent must wait (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), default="info"
    )
    parser.add_argument("--log-format", choices=("console", "json"), default="console")
    parser.add_argument("--version", action="version", version=f"agor {agor.__version__}")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= _LARGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def _open_missing_streams() -> None:
    """Fill the places of closed standard streams, lest a socket or the wire gets one of them."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


if __name__ == "__main__":
    sys.exit(main())

"""Answers the wire: which connection is the daemon's, what is served, when to end.

The executor outlives its connections. It ends when told to (`shutdown`, a signal), or by itself
when no daemon has been connected for the orphan time and its work is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import pwd
import time
import uuid
from dataclasses import dataclass, replace

import structlog

from agor.agents.registry import describe_agents
from agor.errors import Disconnected, HandlerFailed, InvalidParams
from agor.executor.delivery import Delivery
from agor.executor.prompts import Prompts
from agor.executor.terminals.desk import TerminalDesk
from agor.executor.transcripts import TranscriptDesk
from agor.protocol.events import TaskResult
from agor.protocol.forms import Nothing
from agor.protocol.methods import (
    ACK_MESSAGES,
    ASSIGNED,
    EXECUTE_PROMPT,
    INITIALIZE,
    PING,
    PREPARE_SESSION,
    PROTOCOL_VERSION,
    READ_TRANSCRIPT,
    SHUTDOWN,
    SPAWN_TERMINAL,
    STOP_TASK,
    ExecutePromptParams,
    InitializeParams,
    InitializeResult,
    PingResult,
    ShutdownResult,
)
from agor.protocol.terminals import SpawnTerminalParams, SpawnTerminalResult
from agor.rpc import Limits, Peer, Routes

log = structlog.get_logger("agor.executor")

#: What `initialize` promises beyond the methods every executor serves.
CAPABILITIES = ["execute_prompt", "stop_task", "resend", "transcripts", "terminals"]
#: Seconds to wait for the daemon to acknowledge the last events before the end.
_ACK_GRACE = 2.0
#: Seconds between two checks, while no daemon is connected, whether one could still come.
_CHECK = 2.0


@dataclass(frozen=True, slots=True)
class Options:
    """How an executor behaves; each is a flag of the command."""

    max_line: int = 16 * 1024 * 1024
    outbox_bytes: int = 16 * 1024 * 1024
    #: Seconds without any connection after which it ends.
    orphan_timeout: float = 3600.0
    #: The same for one that was never assigned and never had work: no daemon will look for it.
    unused_timeout: float = 3600.0
    #: There will never be another connection than the first.
    one_connection: bool = False


class Executor:
    """One executor: its tasks, its connections, its end."""

    def __init__(self, options: Options) -> None:
        self.executor_id = str(uuid.uuid4())
        self._options = options
        self._limits = Limits(max_line=options.max_line)
        self._delivery = Delivery(options.outbox_bytes, options.max_line, options.one_connection)
        self._prompts = Prompts(self._delivery)
        self._transcripts = TranscriptDesk(options.max_line)
        self._terminals = TerminalDesk(self._delivery, options.max_line)
        self._connections: set[Peer] = set()
        self._ended = asyncio.Event()
        self._interrupted = False
        self._shutdown: asyncio.Task[ShutdownResult] | None = None
        #: Connections that wait for the result of a prompt, the latest last.
        self._asking: list[Peer] = []
        self._orphan: asyncio.TimerHandle | asyncio.Task[None] | None = None
        #: Where it can be reached, if that has a name in the file system.
        self._address: str | None = None
        self._used = False
        #: Made ahead for the first who connects: see `prepare`.
        self._at_hand: Peer | None = None

    def prepare(self) -> None:
        """Make what the first connection will need; as the executor itself, without a loop."""
        self._at_hand = self._new_peer()

    def take_on(self, options: Options) -> bool:
        """Change the options of one that has done nothing yet. False if it was made for others."""
        made_for = replace(
            self._options,
            orphan_timeout=options.orphan_timeout,
            unused_timeout=options.unused_timeout,
        )
        if made_for == options:
            self._options = options
        return made_for == options

    def begin(self, address: str | None = None) -> None:
        """Begin to wait for a daemon, if none is there yet; `address` is a socket's path."""
        self._address = address
        if not self._connections:
            self._await_daemon()

    # ── connections ──────────────────────────────────────────────────────────────────────────

    def make_peer(self) -> Peer:
        """Make the peer of a new connection."""
        peer, self._at_hand = self._at_hand or self._new_peer(), None
        self._connections.add(peer)
        peer.when_closed(functools.partial(self._forget, peer))
        if self._orphan is not None:
            self._orphan.cancel()
            self._orphan = None
        return peer

    def _new_peer(self) -> Peer:
        routes = Routes()
        peer = Peer(routes, self._limits)
        routes.on(PING, _ping)
        routes.on(INITIALIZE, lambda params: self._initialize(params, peer))
        routes.on(EXECUTE_PROMPT, lambda params: self._execute_prompt(params, peer))
        routes.on(STOP_TASK, self._prompts.stop)
        routes.on(READ_TRANSCRIPT, self._transcripts.read)
        routes.on(PREPARE_SESSION, self._transcripts.prepare)
        routes.on_notice(ACK_MESSAGES, self._delivery.acknowledge)
        routes.on_notice(ASSIGNED, self._note_assignment)
        routes.on(SPAWN_TERMINAL, self._spawn_terminal)
        self._terminals.serve(routes, peer)
        routes.on(SHUTDOWN, lambda params: self.shut_down(params.reason, params.timeout_ms / 1000))
        return peer

    def _forget(self, peer: Peer, ending: Disconnected) -> None:
        self._connections.discard(peer)
        self._terminals.forget(peer)
        if self._delivery.detach(peer):
            log.info("daemon_gone", code=ending.code, why=ending.message)
            # Who still waits for a result gets the events before it.
            if waiting := [other for other in self._asking if other in self._connections]:
                self._delivery.attach(waiting[-1])
        if not self._connections:
            self._await_daemon()

    def _await_daemon(self) -> None:
        options = self._options
        timeout = options.orphan_timeout if self._used else options.unused_timeout
        self._check_for_daemon(asyncio.get_running_loop().time() + timeout, timeout)

    def _check_for_daemon(self, deadline: float, timeout: float) -> None:
        """End if no daemon has come in time, or if none can come any more; else check later."""
        loop = asyncio.get_running_loop()
        left = deadline - loop.time()
        if left <= 0:
            why = f"no daemon has been connected for {timeout:g} s"
            self._orphan = asyncio.create_task(self._end_as_orphan(why))
        elif not self._reachable():
            why = f"no daemon is connected, and {self._address} was removed"
            self._orphan = asyncio.create_task(self._end_as_orphan(why))
        else:
            pause = min(left, _CHECK)
            self._orphan = loop.call_later(pause, self._check_for_daemon, deadline, timeout)

    def _reachable(self) -> bool:
        if self._address is None:
            return True
        try:
            os.lstat(self._address)
        except FileNotFoundError:
            return False
        except OSError:
            # The daemon's folder is closed to other users, and so to us if we are one.
            return True
        return True

    async def _end_as_orphan(self, why: str) -> None:
        log.warning("orphaned", why=why, tasks=len(self._prompts.running))
        # Those that need the daemon fail now; those that do not may finish.
        self._delivery.abandon(Disconnected(why))
        if running := self._prompts.running:
            await asyncio.wait([run.result for run in running])
        await asyncio.gather(self._prompts.close(), self._terminals.close_all())
        self._ended.set()

    # ── the end ──────────────────────────────────────────────────────────────────────────────

    async def wait_ended(self) -> None:
        """Wait until it is time to go."""
        await self._ended.wait()

    async def shut_down(self, reason: str, timeout: float) -> ShutdownResult:
        """Take no new work, let tasks finish within `timeout`, stop the others, and end.

        Once begun it happens, whether or not who asked for it waits.
        """
        if self._shutdown is None:
            self._shutdown = asyncio.create_task(self._shut_down(reason, timeout))
        else:
            # Asked again, perhaps with less patience.
            await asyncio.wait((self._shutdown,), timeout=timeout)
            self._cut_short(reason)
        return await asyncio.shield(self._shutdown)

    async def _shut_down(self, reason: str, timeout: float) -> ShutdownResult:
        running = self._prompts.running
        log.info("shutting_down", reason=reason, tasks=len(running))
        # People's shells do not finish by themselves: they are not waited for.
        terminals = asyncio.create_task(self._terminals.close_all())
        results = [run.result for run in running]
        if results and timeout:
            await asyncio.wait(results, timeout=timeout)
        self._cut_short(reason)
        if results:
            await asyncio.wait(results)
        if self._delivery.linked:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._delivery.wait_acknowledged(), _ACK_GRACE)
        await asyncio.gather(self._prompts.close(), terminals)
        self._ended.set()
        if not running:
            return ShutdownResult(status="idle")
        return ShutdownResult(status="interrupted" if self._interrupted else "completed")

    def _cut_short(self, reason: str) -> None:
        for run in self._prompts.running:
            self._interrupted = True
            run.stop(reason)

    # ── methods ──────────────────────────────────────────────────────────────────────────────

    def _initialize(self, params: InitializeParams, peer: Peer) -> InitializeResult:
        """Greet the daemon; from now on its events go to this connection."""
        if params.protocol_version.split(".")[0] != PROTOCOL_VERSION.split(".")[0]:
            raise InvalidParams(
                f"params.protocol_version: this executor speaks {PROTOCOL_VERSION}, "
                f"not {params.protocol_version}",
                hint="Install the same version of agor for the daemon and the executor.",
            )
        tasks = self._prompts.unsettled()
        self._delivery.attach(peer)
        # After the answer, which somebody waits for.
        asyncio.get_running_loop().call_soon(
            functools.partial(
                log.info, "daemon_connected", daemon_id=params.daemon_id, tasks=len(tasks)
            )
        )
        return InitializeResult(
            protocol_version=PROTOCOL_VERSION,
            executor_id=self.executor_id,
            pid=os.getpid(),
            unix_user=unix_user(),
            agents=describe_agents(),
            capabilities=CAPABILITIES,
            tasks=tasks,
            terminals=self._terminals.infos(),
        )

    def _note_assignment(self, _: Nothing) -> None:
        """Wait longer for a daemon from now on: the next one will look for us."""
        self._used = True

    async def _spawn_terminal(self, params: SpawnTerminalParams) -> SpawnTerminalResult:
        self._refuse_if_ending()
        self._used = True
        return await self._terminals.spawn(params)

    async def _execute_prompt(self, params: ExecutePromptParams, peer: Peer) -> TaskResult:
        """Run a task. Whoever calls this first, without a greeting, is the daemon too."""
        self._refuse_if_ending()
        self._used = True
        if not self._delivery.linked:
            self._delivery.attach(peer)
        self._asking.append(peer)
        try:
            return await self._prompts.execute(params)
        finally:
            self._asking.remove(peer)

    def _refuse_if_ending(self) -> None:
        if self._shutdown is not None:
            raise HandlerFailed("this executor is shutting down", code="shutting_down")


def _ping(_: Nothing) -> PingResult:
    return PingResult(pong=True, timestamp=time.time_ns() // 1_000_000)


@functools.cache
def unix_user() -> str:
    """Name the user this process runs as."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())

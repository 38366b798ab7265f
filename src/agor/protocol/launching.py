"""What the daemon says to a launcher. One JSON-RPC message a packet, descriptors along with it.

A launcher can do no more than this: start executors, signal them, count them.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from agor.protocol.forms import Form, Identifier, Nothing
from agor.protocol.methods import (
    Milliseconds,
)
from agor.protocol.validation import Method

#: Descriptors that come with `spawn`: the listening socket, the log, the report; then the files of
#: the control groups to join.
SPAWN_DESCRIPTORS = 3
#: The longest packet, in bytes.
MAX_PACKET = 64 * 1024

#: In the environment of every program that an executor starts: whose it is.
MARK = "AGOR_EXECUTOR_ID"


class Process(Struct, frozen=True):
    """A process that cannot be taken for another one: pids are used again."""

    pid: int
    #: Ticks between the start of the machine and its own.
    started: int


class SpawnParams(Form):
    """Start an executor on the listening socket that comes along."""

    executor_id: Identifier
    orphan_timeout_ms: Milliseconds
    #: The same as long as it never had work: then it has nothing to keep for a daemon.
    unused_timeout_ms: Milliseconds
    max_line: Annotated[int, Meta(ge=1)]
    outbox_bytes: Annotated[int, Meta(ge=1)]
    #: Pairs of a resource's number and its limit, which the executor sets itself.
    rlimits: tuple[tuple[int, int], ...] = ()


class Family(Form):
    """An executor and the keeper above it."""

    executor_id: Identifier
    keeper: Process
    executor: Process


class HelloResult(Form):
    """Who answers."""

    version: str
    user: str
    uid: int
    process: Process
    #: Where its executors look for agents' programs.
    agents_folder: str | None = None
    #: Whether the agents' libraries are in all that it forks, as far as they can be imported.
    preloaded: bool = False


class CallOffParams(Form):
    """Which executor nobody waits for any more."""

    executor_id: Identifier


class SignalParams(Form):
    """Signal an executor and all that descends from it."""

    family: Family
    signal: Annotated[int, Meta(ge=1, le=64)]


class Counted(Form):
    """How many processes it concerned."""

    count: int


class ExitReport(Form):
    """What a keeper writes at the end of its executor."""

    #: Processes it had left behind, which were killed.
    left_behind: int
    #: Those that could not be killed.
    survivors: int
    exit_code: int | None = None
    signal: int | None = None


HELLO = Method("hello", Nothing, HelloResult)
#: Answered once the executor is forked; others can be asked for meanwhile.
SPAWN = Method("spawn", SpawnParams, Family)
#: Undo a start whose answer nobody waits for, whether or not it is over.
CALL_OFF = Method("call_off", CallOffParams, Counted)
SIGNAL_FAMILY = Method("signal_family", SignalParams, Counted)
COUNT_FAMILY = Method("count_family", Family, Counted)
#: End once nothing that was started is left.
RETIRE = Method("retire", Nothing, Nothing)

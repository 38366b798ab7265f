"""Tasks that an executor has or is about to get, in memory: how far each of them is told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from agor.daemon.pool.ending import Ending
from agor.daemon.services.line import Entry
from agor.daemon.services.live import LiveSession
from agor.daemon.services.stamps import Stopwatch
from agor.daemon.services.texts import LONG
from agor.daemon.store import messages, tasks
from agor.daemon.store.base import Statement
from agor.daemon.store.rows import MessageRow
from agor.errors import InvalidParams
from agor.execution import ExecutionEnvironment
from agor.protocol.conversation import kept
from agor.protocol.events import BlockComplete, BlockStart, BlockUpdate, TaskResult

#: Blocks of one task. More is no conversation, and memory is not for giving away.
_MOST_BLOCKS = 100_000

Mark = BlockStart | BlockUpdate | BlockComplete | TaskResult


class Begun:
    """A block that has begun. Its place in the feed is known once that is being committed."""

    __slots__ = ("sequence",)

    def __init__(self, sequence: int = 0) -> None:
        self.sequence = sequence


class Run:
    """One task on its way through an executor."""

    def __init__(self, live: LiveSession, task_id: str, received: int = 0) -> None:
        self.live = live
        self.task_id = task_id
        self.environment: ExecutionEnvironment | None = None
        self.acquiring: asyncio.Task[ExecutionEnvironment] | None = None
        #: How long ago it was started.
        self.age: Stopwatch | None = None
        #: Who has the task, or is about to.
        self.executor_id: str | None = None
        #: The last sequence that was taken, and the last that is stored.
        self.taken = received
        self.stored = received
        #: Whether some of its events could not be stored, and never will be.
        self.incomplete = False
        #: Bytes that were taken and are not stored.
        self.held = 0
        #: What each kind of event begins with, behind its sequence.
        self.heads: dict[str, bytes] = {}
        #: Bytes that are stored and not acknowledged, and when they will be.
        self.unacknowledged = 0
        self.ack_timer: asyncio.TimerHandle | None = None
        #: The blocks that are not complete; each id stands for the one that began last.
        self.blocks: dict[str, Begun] = {}
        self.block_count = 0
        #: Where its long blocks start that are complete; their texts are compacted at its end.
        self.long_blocks: set[int] = set()
        self.agent_session_id: str | None = None
        #: How the executor says that it ended.
        self.result: TaskResult | None = None
        #: How the executor itself ended, if it did.
        self.ending: Ending | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def measure_from(self, started_at: int | None) -> None:
        """Measure its time from its start, unless that is being done."""
        if self.age is None and started_at is not None:
            self.age = Stopwatch(started_at)

    def end(self) -> None:
        """Have everybody go on who waits for the end."""
        if not self.ended.done():
            self.ended.set_result(None)

    async def wait_ended(self) -> None:
        """Wait for the end. Whoever gives up waiting does not end it, as awaiting it would."""
        await asyncio.wait((self.ended,))

    def head_of(self, kind: str) -> bytes:
        """Spell what an event of this kind begins with."""
        task = msgspec.json.encode(self.task_id)
        head = b',"type":"%b","task_id":%b,"data":' % (kind.encode(), task)
        self.heads[kind] = head
        return head


class StreamEntry(Entry):
    """Events of one task that came together, and what they change in the store."""

    __slots__ = ("_marks", "run", "upto")

    def __init__(self, run: Run) -> None:
        super().__init__(patient=True)
        self.urgent = False
        self.run = run
        self.tasks.add(run.task_id)
        self.upto = run.taken
        self._marks: list[tuple[int, Mark, bytes, Begun | None]] = []

    def mark(self, event: Mark, data: bytes) -> None:
        """The event that is added next changes more than the feed."""
        blocks, block = self.run.blocks, None
        if isinstance(event, BlockStart):
            if self.run.block_count >= _MOST_BLOCKS:
                raise InvalidParams(f"a task has at most {_MOST_BLOCKS} blocks")
            self.run.block_count += 1
            block = blocks[event.block_id] = Begun()
        elif isinstance(event, BlockUpdate):
            block = blocks.get(event.block_id)
        elif isinstance(event, BlockComplete):
            block = blocks.pop(event.block_id, None)
        if block is not None or isinstance(event, TaskResult):
            # Else it is of no block that could change: it is in the feed, and nowhere else.
            self._marks.append((len(self.events), event, data, block))

    def statements(self, first: int) -> Sequence[Statement]:
        """Say what changes; called again, with another place, if the store could not write."""
        run = self.run
        found = [*self._statements, tasks.received(run.task_id, self.upto)]
        for offset, event, data, block in self._marks:
            found.append(_statement(run, event, data, block, first + offset))
        return found


def _statement(run: Run, event: Mark, data: bytes, block: Begun | None, sequence: int) -> Statement:
    number = run.live.row.number
    if isinstance(event, TaskResult):
        return tasks.result(run.task_id, data)
    assert block is not None
    if isinstance(event, BlockStart):
        block.sequence = sequence
        return messages.start(_message(run, event, data, sequence))
    if isinstance(event, BlockComplete):
        if sequence - block.sequence >= LONG:
            run.long_blocks.add(block.sequence)
        return messages.complete(number, block.sequence, sequence, event.length, event.is_error)
    changed = None if event.tool_input is None else data
    reason = None if event.reason is None else kept(event.reason)
    return messages.update(
        number, block.sequence, status=event.status, reason=reason, tool_input=changed
    )


def _message(run: Run, event: BlockStart, data: bytes, sequence: int) -> MessageRow:
    return MessageRow(
        session_number=run.live.row.number,
        sequence=sequence,
        last_sequence=None,
        block_id=event.block_id,
        task_id=run.task_id,
        kind=event.kind,
        start=data,
        status=None,
        reason=None,
        tool_input=None,
        length=None,
        is_error=False,
    )


class Runs:
    """All of them."""

    def __init__(self) -> None:
        self._by_task: dict[str, Run] = {}

    def add(self, run: Run) -> None:
        """Take one in; it leaves by itself when it has ended."""
        self._by_task[run.task_id] = run
        run.ended.add_done_callback(lambda _: self._by_task.pop(run.task_id, None))

    def get(self, task_id: str) -> Run | None:
        """Find one by its task."""
        return self._by_task.get(task_id)

    def on(self, executor_id: str) -> list[Run]:
        """List those that an executor has."""
        return [run for run in self._by_task.values() if run.executor_id == executor_id]

    def all(self) -> list[Run]:
        """List all."""
        return list(self._by_task.values())

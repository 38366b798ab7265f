"""Events that the daemon has not acknowledged yet. Sans-IO.

Invariants, for each task:
- sequences start at 1 and have no gap; every event is in `unsent`, in `unacked`, or acknowledged;
- nothing leaves but by acknowledgement: a new connection starts again after the last one;
- the bytes held are counted over all tasks; past `max_bytes` there is no room, and who reports
  must wait. One event always fits, however large.
"""

from __future__ import annotations

from collections import deque


class TaskLog:
    """The events of one task, as encoded lines."""

    def __init__(self, task_id: str, opening: bytes = b"") -> None:
        self.task_id = task_id
        #: What the line of every event begins with, as far as its sequence.
        self.opening = opening
        self.last_sequence = 0
        self.acked_sequence = 0
        self.unacked: deque[bytes] = deque()
        self.unsent: deque[bytes] = deque()
        self.closed = False

    @property
    def settled(self) -> bool:
        """Whether everything there will ever be is acknowledged."""
        return self.closed and self.acked_sequence == self.last_sequence


class Outbox:
    """The logs of all tasks of this executor."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held = 0
        #: Events of all tasks that have yet to be sent, or sent again.
        self.unsent = 0
        self.logs: dict[str, TaskLog] = {}

    @property
    def has_room(self) -> bool:
        """Whether the next event may be added."""
        return self._held < self._max_bytes

    @property
    def empty(self) -> bool:
        """Whether everything is acknowledged."""
        return self._held == 0

    def open(self, task_id: str, opening: bytes = b"") -> TaskLog:
        """Begin the log of a task."""
        log = self.logs[task_id] = TaskLog(task_id, opening)
        return log

    def add(self, log: TaskLog, line: bytes) -> None:
        """Add the next event of a task; its sequence is `log.last_sequence + 1`."""
        log.last_sequence += 1
        log.unsent.append(line)
        self.unsent += 1
        self._held += len(line)

    def add_sent(self, log: TaskLog, line: bytes) -> None:
        """Add the next event of a task as one that is sent already: only with nothing unsent."""
        log.last_sequence += 1
        log.unacked.append(line)
        self._held += len(line)

    def close(self, log: TaskLog) -> None:
        """No event of this task will follow."""
        log.closed = True

    def next_unsent(self) -> bytes | None:
        """Take the next event to send; each task's in order, tasks with events one by one."""
        for task_id, log in self.logs.items():
            if log.unsent:
                line = log.unsent.popleft()
                log.unacked.append(line)
                self.unsent -= 1
                # To the end of the line, so that a busy task does not silence the others.
                self.logs[task_id] = self.logs.pop(task_id)
                return line
        return None

    def rewind(self) -> None:
        """Begin again after what is acknowledged: the daemon that had the rest is gone."""
        for log in self.logs.values():
            self.unsent += len(log.unacked)
            log.unsent.extendleft(reversed(log.unacked))
            log.unacked.clear()

    def acknowledge(self, task_id: str, sequence: int) -> bool:
        """Let go of a task's events up to a sequence. False if there never were that many."""
        log = self.logs.get(task_id)
        if log is None or sequence > log.last_sequence:
            return False
        while log.acked_sequence < sequence:
            # Acknowledged on one connection, rewound for the next: it may be unsent again.
            if log.unacked:
                line = log.unacked.popleft()
            else:
                line = log.unsent.popleft()
                self.unsent -= 1
            self._held -= len(line)
            log.acked_sequence += 1
        if log.settled:
            del self.logs[task_id]
        return True

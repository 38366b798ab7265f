"""One task's events, from an executor's words to an entry of the session's line.

This is the hot path of the daemon: a few steps an event. What an event says is kept as it came; it
is read only where it changes more than the feed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from agor.daemon.services.runs import Run, StreamEntry
from agor.daemon.services.stamps import now
from agor.daemon.store import sessions
from agor.errors import InvalidParams
from agor.execution import ExecutionEnvironment
from agor.protocol.events import (
    BlockComplete,
    BlockStart,
    BlockUpdate,
    MetadataUpdate,
    TaskResult,
    decode_event,
)
from agor.protocol.methods import ReportMessageParams
from agor.protocol.validation import UNREADABLE, name_the_field

_MARKS = (BlockStart, BlockUpdate, BlockComplete, TaskResult)
#: What is followed by more at once, or else tells nothing that is not known.
_CAN_WAIT = frozenset(("block_start", "status"))


class StreamWriter:
    """Puts one task's events of one read into an entry."""

    def __init__(self, run: Run, environment: ExecutionEnvironment) -> None:
        self.run = run
        self.environment = environment
        self.result: TaskResult | None = None
        #: Whether there were events that we had already.
        self.repeated = False
        last = run.live.channel.line.last
        #: What is not being committed yet takes more of the same task: one commit, one answer.
        open_entry = last if isinstance(last, StreamEntry) and last.run is run else None
        self.fresh = open_entry is None
        self.entry = open_entry or StreamEntry(run)

    def take(self, events: Sequence[ReportMessageParams]) -> None:
        """Take the events that follow; those that we have are passed over."""
        run, entry = self.run, self.entry
        if len(events) > 1 or events[0].event_type not in _CAN_WAIT:
            entry.urgent = True
        plain = b"\r" not in b"".join([event.event_data for event in events])
        end = b',"created_at":%d}' % now()
        known, add, heads = len(entry.events), entry.events.append, run.heads
        last, ended = run.taken, run.result is not None
        try:
            for event in events:
                kind, data = event.event_type, event.event_data
                if event.sequence != last + 1 or ended:
                    if event.sequence > last:
                        raise InvalidParams(
                            f"params.sequence: {event.sequence} does not follow {last}, or the "
                            "task has ended"
                        )
                    self.repeated = True
                    continue
                if not plain:
                    data = _on_one_line(data)
                if kind != "block_delta":
                    self._note(kind, bytes(data))
                    ended = self.result is not None
                add(b"".join((heads.get(kind) or run.head_of(kind), data, end)))
                last += 1
        finally:
            size = sum(map(len, entry.events[known:]))
            entry.size += size
            run.held += size
            run.taken = entry.upto = last

    def _note(self, kind: str, data: bytes) -> None:
        event = decode_event(kind, data)
        if isinstance(event, _MARKS):
            self.entry.mark(event, data)
        if isinstance(event, TaskResult):
            self.result = event
        elif isinstance(event, MetadataUpdate) and event.agent_session_id is not None:
            self.run.agent_session_id = event.agent_session_id
            session_id = self.run.live.session_id
            self.entry.also(sessions.agent_session(session_id, event.agent_session_id))


def _on_one_line(data: Raw) -> Raw:
    """Spell JSON without what is white space to it and the end of a line to others."""
    if b"\r" not in bytes(data):
        return data
    try:
        return Raw(msgspec.json.encode(msgspec.json.decode(data)))
    except (*UNREADABLE, ValueError) as error:
        # As it is it may be passed on, and not by somebody who has to read it: too long a number,
        # or half a character.
        raise InvalidParams(name_the_field(error, "params.event_data")) from None

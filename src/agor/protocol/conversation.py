"""The state of a session, put together from its feed. Pure, and the same on both sides.

Whoever has all events of a feed holds what the daemon shows: the session, its tasks, its permission
requests, and the conversation as blocks, exactly as `GET /sessions/{id}/messages` gives them.

The rules of blocks, which executors may break and nobody suffers from:
- a block begins with its `block_start`; another one with the same id begins another block;
- a delta, an update or a completion is about the block of its own task that began last under its
  id; if there is none, or it is complete, it changes nothing;
- what does not have its form changes nothing.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from agor.errors import InvalidParams
from agor.protocol.api import FeedEvent, Message, Permission, Session, TaskState
from agor.protocol.events import (
    BlockComplete,
    BlockDelta,
    BlockStart,
    BlockUpdate,
    decode_event,
)
from agor.protocol.validation import UNREADABLE

T = TypeVar("T")

_UNKEEPABLE = re.compile(r"[\x00\ud800-\udfff]")

#: Characters of one block's text that are kept. The whole is in the feed.
LONGEST_TEXT = 1_000_000


def kept(words: str) -> str:
    """Spell words as every database takes them: without NUL and halves of characters."""
    return _UNKEEPABLE.sub("\N{REPLACEMENT CHARACTER}", words)


class Text:
    """A text that grows, up to a bound."""

    __slots__ = ("_pieces", "length")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        #: Its characters; one more than the bound if it has more than that, however many.
        self.length = 0

    @property
    def full(self) -> bool:
        """Whether more of it would change nothing."""
        return self.length > LONGEST_TEXT

    def add(self, piece: str) -> None:
        """Put the next piece behind it."""
        if not self.full:
            self._pieces.append(piece[: LONGEST_TEXT - self.length])
            self.length = min(self.length + len(piece), LONGEST_TEXT + 1)

    def __str__(self) -> str:
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]


class Conversation:
    """A session as far as its feed was taken. Take events in their order, each once."""

    def __init__(self) -> None:
        #: The last event that was taken: where to follow on.
        self.sequence = 0
        self.session: Session | None = None
        self.tasks: dict[str, TaskState] = {}
        self.permissions: dict[str, Permission] = {}
        self._blocks: list[_Block] = []
        #: Those that are not complete, by task and id.
        self._open: dict[tuple[str, str], _Block] = {}

    def take(self, event: FeedEvent) -> None:
        """Take the next event. Nothing that it holds is an error."""
        self.sequence = event.sequence
        match event.type:
            case "block_delta":
                self._grow(event)
            case "block_start":
                self._begin(event)
            case "block_update":
                self._update(event)
            case "block_complete":
                self._complete(event)
            case "session":
                self.session = _read(event.data, Session) or self.session
            case "task" if (task := _read(event.data, TaskState)) is not None:
                self.tasks[task.task_id] = task
            case "permission" if (asked := _read(event.data, Permission)) is not None:
                self.permissions[asked.permission_id] = asked

    @property
    def messages(self) -> list[Message]:
        """The blocks, in the order in which they began."""
        return [block.show() for block in self._blocks]

    def _begin(self, event: FeedEvent) -> None:
        start = _read(event.data, BlockStart)
        if start is not None and event.task_id is not None:
            block = self._open[event.task_id, start.block_id] = _Block(event, start)
            self._blocks.append(block)

    def _grow(self, event: FeedEvent) -> None:
        delta = _read(event.data, BlockDelta)
        if delta is not None and (block := self._find(event, delta.block_id)) is not None:
            block.text.add(delta.text)

    def _update(self, event: FeedEvent) -> None:
        update = _read(event.data, BlockUpdate)
        if update is not None and (block := self._find(event, update.block_id)) is not None:
            block.update(update)

    def _complete(self, event: FeedEvent) -> None:
        end = _read(event.data, BlockComplete)
        if end is not None and (block := self._find(event, end.block_id)) is not None:
            block.end = end
            del self._open[block.key]

    def _find(self, event: FeedEvent, block_id: str) -> _Block | None:
        return self._open.get((event.task_id or "", block_id))


class _Block:
    """One block, as far as it is told."""

    def __init__(self, event: FeedEvent, start: BlockStart) -> None:
        assert event.task_id is not None
        self.key = (event.task_id, start.block_id)
        self.text = Text()
        self.end: BlockComplete | None = None
        self._start = start
        self._sequence = event.sequence
        self._changes: dict[str, Any] = {"tool_input": start.tool_input}

    def update(self, update: BlockUpdate) -> None:
        """Change what the update has; the rest stays."""
        for name in ("status", "reason", "tool_input"):
            if (value := getattr(update, name)) is not None:
                self._changes[name] = kept(value) if name == "reason" else value

    def show(self) -> Message:
        start, end = self._start, self.end
        return Message(
            message_id=start.block_id,
            task_id=self.key[0],
            kind=start.kind,
            parent_tool_use_id=start.parent_tool_use_id,
            tool_use_id=start.tool_use_id,
            tool_name=start.tool_name,
            tool_input=self._changes["tool_input"],
            status=self._changes.get("status"),
            reason=self._changes.get("reason"),
            text=str(self.text),
            length=self.text.length if end is None else end.length,
            complete=end is not None,
            is_error=end is not None and end.is_error,
            sequence=self._sequence,
        )


def _read(data: Any, form: type[T]) -> T | None:
    try:
        return msgspec.convert(data, form)
    except (msgspec.ValidationError, RecursionError):
        return None


# ── from bytes ───────────────────────────────────────────────────────────────────────────────────


class _Spelled(Struct):
    """A `FeedEvent` whose data nobody has looked into."""

    sequence: int
    type: str
    task_id: str | None
    data: msgspec.Raw
    created_at: int


_decode = msgspec.json.Decoder(FeedEvent).decode
_decode_spelled = msgspec.json.Decoder(_Spelled).decode


def read_event(body: bytes | str) -> FeedEvent:
    """Read an event as the feed sends it; raises what is in `UNREADABLE` if it is none.

    Executors can spell data that is JSON and still no value (a number of five thousand digits).
    Then what belongs to the event's form is kept, as the daemon keeps it; else there is no data.
    """
    try:
        return _decode(body)
    except UNREADABLE:
        event = _decode_spelled(body)
        return FeedEvent(
            event.sequence,
            event.type,
            event.task_id,
            _readable(event.type, event.data),
            event.created_at,
        )


def _readable(event_type: str, data: msgspec.Raw) -> Any:
    try:
        return msgspec.to_builtins(decode_event(event_type, data))
    except (InvalidParams, RecursionError):
        return None

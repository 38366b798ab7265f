"""Reads what the other end says: bytes to lines to messages, whatever they look like.

Invariant: a line that cannot be understood costs its sender an error and nobody else anything.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import UNSET, Raw

from agor.errors import InvalidRequest, ParseError
from agor.protocol.envelope import ABSENT, CANCEL_REQUEST, Message
from agor.protocol.validation import UNREADABLE, name_the_field
from agor.rpc.answers import Batch
from agor.rpc.diagnosis import diagnose
from agor.rpc.framing import OVERLONG, LineFramer
from agor.rpc.limits import Limits
from agor.rpc.outbound import Pending
from agor.rpc.serving import Serving

_decode_message = msgspec.json.Decoder(Message).decode
_decode_batch = msgspec.json.Decoder(list[Raw]).decode

#: Lines of one read that are carried out before their answers leave, so that the other end can go
#: on while we work on the rest.
_PIECE = 32


class Inbound:
    """The reading half of one connection."""

    def __init__(
        self,
        serving: Serving,
        pending: Pending,
        limits: Limits,
        flush: Callable[[], None],
        stop_reading: Callable[[], None],
    ) -> None:
        self._serving = serving
        self._serve = serving.serve
        self._answers = serving.answers
        self._pending = pending
        self._limits = limits
        self._max_line = limits.max_line
        self._flush = flush
        self._stop_reading = stop_reading
        self._framer = LineFramer(self._max_line)
        self._streams = tuple(serving.streams.values())
        self._paused = False
        #: Lines that came while the answers to those before were not read.
        self._left: list[bytes] = []
        self._left_size = 0

    def receive(self, data: bytes) -> None:
        """Take what was read and do what it says."""
        # The decoder checks the text that it decodes; payloads that stay raw need it for all.
        plain = data.isascii()
        joined = self._framer.held
        whole = data.find(b"\n") == len(data) - 1 <= self._max_line
        if whole and plain and not joined and not self._paused:
            # One line, as from anybody who waits for an answer before asking again.
            try:
                message = _decode_message(data)
            except UNREADABLE:
                pass  # It is odd, and goes the long way.
            else:
                self._serve((message,), None)
                if self._answers:
                    self._flush()
                return
        lines = self._framer.feed(data)
        plain = plain and not (joined and lines and not lines[0].isascii())
        self._receive_lines(lines, plain=plain)

    def pause(self) -> None:
        """Do no more for the other end, until it has read its answers."""
        self._paused = True

    def resume(self) -> bool:
        """Go on with what was left. False if too much is still left to read more."""
        self._paused = False
        lines, self._left, self._left_size = self._left, [], 0
        self._receive_lines(lines, plain=False)
        return not self._too_much_left()

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do."""
        return not self._left

    def end(self) -> int:
        """Tell how many bytes of an unfinished line the stream ended with."""
        held = self._framer.held
        if held:
            self._serving.refuse(
                ParseError(f"the stream ended in mid-line, after {held} bytes of it")
            )
        return held

    def _receive_lines(self, lines: list[bytes], *, plain: bool) -> None:
        if plain and not self._paused and self._receive_run(lines):
            return
        for start in range(0, len(lines), _PIECE):
            if self._paused:
                self._leave(lines[start:])
                return
            piece = lines[start : start + _PIECE]
            if plain or _is_utf8(b"\n".join(piece)):
                self._receive_piece(piece)
            else:
                self._receive_each(piece)
            if self._answers:
                self._flush()

    def _leave(self, lines: list[bytes]) -> None:
        """Leave requests for later, and only those: the rest asks nothing of us.

        Two ends that owe each other more than fits into the sockets would else wait for each other
        for ever, each with the other's answers unread.
        """
        for line in lines:
            if _asks_nothing(line):
                self._receive_line(line)
            else:
                self._left.append(line)
                self._left_size += len(line)
        if self._too_much_left():
            self._stop_reading()

    def _too_much_left(self) -> bool:
        """Whether more is left than an end that keeps to the bounds would ask for."""
        limits = self._limits
        return len(self._left) > limits.max_in_flight or self._left_size > limits.max_unsent

    def _receive_piece(self, lines: list[bytes]) -> None:
        """Decode lines in one go and do what they say; if one of them is odd, one by one."""
        if self._receive_run(lines):
            return
        try:
            messages = list(map(_decode_message, lines))
        except UNREADABLE:
            self._receive_each(lines)
        else:
            self._serve(messages, None)

    def _receive_run(self, lines: list[bytes]) -> bool:
        """Take lines that are all of one stream, each decoded once with its params.

        False, and nothing is done, if that is not what they are.
        """
        for stream in self._streams:
            if lines and stream.mark in lines[0]:
                try:
                    run = [line.params for line in map(stream.read_line, lines)]
                except UNREADABLE:
                    return False
                self._serving.take_run(stream, run)
                return True
        return False

    def _receive_each(self, lines: list[bytes]) -> None:
        for number, line in enumerate(lines):
            if self._paused:
                self._leave(lines[number:])
                return
            self._receive_line(line) if _is_utf8(line) else self._explain(line, None)

    def _receive_line(self, line: bytes) -> None:
        try:
            message = _decode_message(line)
        except UNREADABLE:
            self._receive_odd(line)
        else:
            self._serve((message,), None)

    def _receive_odd(self, line: bytes) -> None:
        if line is OVERLONG:
            self._serving.refuse(ParseError(f"a line of over {self._limits.max_line} bytes"))
            return
        text = line.strip(b" \t\r")  # what JSON takes for white space
        if text.startswith(b"["):
            self._receive_batch(text)
        elif text:
            self._explain(text, None)

    def _receive_batch(self, text: bytes) -> None:
        try:
            items = _decode_batch(text)
        except UNREADABLE as error:
            self._serving.refuse(ParseError(name_the_field(error, "batch")))
            return
        if not items or len(items) > self._limits.max_batch:
            most = self._limits.max_batch
            self._serving.refuse(
                InvalidRequest(f"a batch has 1 to {most} messages, not {len(items)}")
            )
            return
        batch = Batch(self._limits.max_line)
        for item in items:
            try:
                message = _decode_message(item)
            except UNREADABLE:
                self._explain(bytes(item), batch)
            else:
                self._serve((message,), batch)
        self._serving.release(batch)
        if self._answers:
            # Its answer may be as long as a line can be: not two of them before the first is out.
            self._flush()

    def _explain(self, text: bytes, batch: Batch | None) -> None:
        fault = diagnose(text)
        if fault.meant_as_answer:
            self._serving.note_fault(fault.error.message)
            self._pending.reject(fault.request_id, fault.error.message)
        else:
            self._serving.refuse(fault.error, batch, fault.request_id)


def _asks_nothing(line: bytes) -> bool:
    if not _is_utf8(line):
        return False
    try:
        message = _decode_message(line)
    except UNREADABLE:
        return False
    if message.method is UNSET:
        return message.result is not ABSENT or message.error is not ABSENT
    # A cancellation must not overtake the request that it is about.
    return message.id is UNSET and message.method != CANCEL_REQUEST


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True

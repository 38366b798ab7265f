"""Renders answers that cannot be written together as they are: batches, and what is too long, over
several lines or not JSON at all. Off the hot path.

Whoever asked must hear something, and whoever else is answered must not suffer for it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import structlog
from msgspec import Raw

from agor.errors import HandlerFailed, InternalError
from agor.protocol.envelope import Answer, Failure, RequestId, encode_lines, failure

log = structlog.get_logger("agor.rpc")

Reply = Answer | Failure


class Batch:
    """The answers of one batch, held together until the last of them is ready.

    They are rendered as they come: a batch can ask for far more than fits into its answer, and what
    does not fit must not pile up until the end.
    """

    def __init__(self, max_line: int) -> None:
        #: Handlers still at work, and the reading of the batch itself.
        self.waiting = 1
        self._max_line = max_line
        self._ids: list[RequestId] = []
        self._texts: list[bytes] = []
        #: Of the whole line: brackets, newline, and a comma for all texts but the first.
        self._size = 2

    @property
    def owed(self) -> set[RequestId]:
        """The ids that are answered in here."""
        return {request_id for request_id in self._ids if request_id is not None}

    def append(self, reply: Reply) -> None:
        """Take the answer to one of its requests."""
        self._ids.append(reply.id)
        if self._size > self._max_line:
            return
        text = _encode(reply, self._max_line)[:-1]
        self._size += len(text) + 1
        self._texts.append(text)
        if self._size > self._max_line:
            self._texts.clear()

    def render(self) -> Raw | None:
        """Put all answers into one line, or into words that they do not fit."""
        if not self._ids:
            return None
        if self._texts:
            return Raw(b"[%b]" % b",".join(self._texts))
        error = HandlerFailed(
            f"the answers of the batch have over {self._max_line} bytes, the cap of a line",
            hint="Ask for less at once.",
        )
        line = encode_lines([[failure(request_id, error) for request_id in self._ids]])
        return Raw(
            (line if len(line) <= self._max_line else encode_lines([failure(None, error)]))[:-1]
        )


def encode_carefully(answers: Sequence[Reply | Raw], max_line: int) -> bytes:
    """Render answers one by one, each a line of at most `max_line` bytes."""
    lines = (
        bytes(answer) + b"\n" if isinstance(answer, Raw) else _encode(answer, max_line)
        for answer in answers
    )
    return b"".join(lines)


def _encode(reply: Reply, max_line: int) -> bytes:
    try:
        line = _on_one_line(encode_lines([reply]))
    except Exception:
        log.exception("unencodable_result")
        return encode_lines([failure(reply.id, InternalError("the result is not JSON"))])
    if len(line) <= max_line:
        return line
    error = HandlerFailed(
        f"the answer has {len(line)} bytes, over the cap of {max_line}",
        hint="Ask for less at once.",
    )
    return encode_lines([failure(reply.id, error)])


def _on_one_line(text: bytes) -> bytes:
    """Take the white space out of raw JSON that somebody has laid out for people."""
    if text.count(b"\n") == 1:
        return text
    line = msgspec.json.format(text, indent=-1)
    if b"\n" in line:
        raise ValueError("raw JSON with a newline inside a string")
    return line + b"\n"

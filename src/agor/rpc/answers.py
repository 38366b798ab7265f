"""Answers that cannot be written as they are: too long, or not JSON at all. Off the hot path.

Whoever asked must hear something, and whoever else is answered must not suffer for it.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from agor.errors import HandlerFailed, InternalError
from agor.protocol.envelope import Answer, Failure, encode_lines, failure

log = structlog.get_logger("agor.rpc")

Reply = Answer | Failure


def encode_carefully(answers: Sequence[Reply | list[Reply]], max_line: int) -> bytes:
    """Render answers one by one, each a line of at most `max_line` bytes."""
    lines = (
        _encode_batch(answer, max_line) if isinstance(answer, list) else _encode(answer, max_line)
        for answer in answers
    )
    return b"".join(lines)


def _encode(reply: Reply, max_line: int) -> bytes:
    try:
        line = encode_lines([reply])
    except Exception:
        log.exception("unencodable_result")
        return encode_lines([failure(reply.id, InternalError("the result is not JSON"))])
    if len(line) <= max_line:
        return line
    return encode_lines([failure(reply.id, _too_long(len(line), max_line))])


def _encode_batch(replies: list[Reply], max_line: int) -> bytes:
    line = b"[" + b",".join(_encode(reply, max_line)[:-1] for reply in replies) + b"]\n"
    if len(line) <= max_line:
        return line
    error = _too_long(len(line), max_line)
    line = encode_lines([[failure(reply.id, error) for reply in replies]])
    return line if len(line) <= max_line else encode_lines([failure(None, error)])


def _too_long(size: int, max_line: int) -> HandlerFailed:
    return HandlerFailed(
        f"the answer has {size} bytes, over the cap of {max_line}", hint="Ask for less at once."
    )

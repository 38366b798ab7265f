"""Answers that tell an error, back into the error that it was in the daemon."""

from __future__ import annotations

from http import HTTPStatus

import msgspec

from agor.errors import AgorError, RequestRefused
from agor.protocol.api import ProblemDetails
from agor.protocol.validation import UNREADABLE


def _below(kind: type[AgorError]) -> dict[str, type[AgorError]]:
    found = {kind.code: kind}
    for child in kind.__subclasses__():
        found |= _below(child)
    return found


#: Code → error, for all of our own.
_KINDS = _below(AgorError)


def revive(status: int, body: bytes) -> AgorError:
    """Make an error of an answer that is none of the good ones."""
    try:
        problem = msgspec.json.decode(body, type=ProblemDetails)
    except UNREADABLE:
        words = HTTPStatus(status).phrase if status in set(HTTPStatus) else "?"
        return RequestRefused(
            f"answered with {status} ({words}), in a way that no daemon answers",
            hint="Is this the address of an agor daemon?",
        )
    kind = _KINDS.get(problem.code, RequestRefused)
    error = kind(problem.detail, hint=problem.hint)
    error.code = problem.code
    return error

"""Errors as answers: RFC 9457 problems, from one table of error → status and title.

An error that nobody foresaw is answered without its details, and logged once with them.
"""

from __future__ import annotations

import msgspec

from agor.daemon.api.answers import PROBLEM, Answer, HeaderList
from agor.errors import (
    AgorError,
    BadInput,
    Conflict,
    Disconnected,
    Forbidden,
    GitFailed,
    ImpersonationRefused,
    InternalError,
    MasterKeyUnusable,
    NotFound,
    Overloaded,
    PoolClosed,
    PoolError,
    PoolExhausted,
    RequestRefused,
    StoreDamaged,
    StoreError,
    StoreUnavailable,
    TimedOut,
    TooLarge,
    TooManyAttempts,
    Unauthenticated,
    Unprocessable,
)
from agor.protocol.api import ProblemDetails

#: The nearest class of an error counts. What is not below any of these is a bug of ours.
STATUSES: dict[type[AgorError], tuple[int, str]] = {
    BadInput: (400, "Bad request"),
    RequestRefused: (400, "Request refused"),
    Unauthenticated: (401, "Not authenticated"),
    Forbidden: (403, "Forbidden"),
    NotFound: (404, "Not found"),
    TimedOut: (408, "Not in time"),
    Conflict: (409, "Conflict"),
    TooLarge: (413, "Too large"),
    Unprocessable: (422, "Not what this route takes"),
    TooManyAttempts: (429, "Too many attempts"),
    InternalError: (500, "Internal error"),
    StoreError: (500, "Database unusable"),
    StoreDamaged: (500, "Database damaged"),
    GitFailed: (503, "Git failed"),
    Disconnected: (503, "Connection lost"),
    ImpersonationRefused: (503, "Executors cannot run as this user"),
    MasterKeyUnusable: (503, "Credentials cannot be sealed or opened"),
    Overloaded: (503, "Overloaded"),
    PoolClosed: (503, "Shutting down"),
    PoolError: (503, "No executor"),
    PoolExhausted: (503, "All executors are in use"),
    StoreUnavailable: (503, "Database unavailable"),
}

#: Seconds after which it is worth trying again.
_TRY_AGAIN: dict[type[AgorError], int] = {
    Overloaded: 1,
    PoolClosed: 5,
    PoolExhausted: 5,
    StoreUnavailable: 1,
}


def row_of(kind: type[AgorError]) -> tuple[int, str] | None:
    """Find the status and the title of an error; None if it is none that a client may see."""
    return next((STATUSES[each] for each in kind.__mro__ if each in STATUSES), None)


def problem(
    status: int,
    title: str,
    *,
    code: str,
    detail: str,
    hint: str | None = None,
    headers: HeaderList | None = None,
) -> Answer:
    """Make the answer that tells a problem."""
    details = ProblemDetails(
        type=f"urn:agor:error:{code}",
        title=title,
        status=status,
        detail=detail,
        code=code,
        hint=hint,
    )
    return Answer(status, msgspec.json.encode(details), PROBLEM, headers or ())


def problem_of(error: AgorError) -> Answer | None:
    """Make the answer that tells an error; None if a client must not see it."""
    row = row_of(type(error))
    if row is None:
        return None
    headers: HeaderList = []
    if isinstance(error, Unauthenticated):
        headers.append((b"www-authenticate", b'Bearer realm="agor"'))
    if isinstance(error, TooLarge):
        # The rest of it is still on its way.
        headers.append((b"connection", b"close"))
    if isinstance(error, TooManyAttempts):
        headers.append(retry_after(error.retry_after))
    for kind, seconds in _TRY_AGAIN.items():
        if isinstance(error, kind):
            headers.append(retry_after(seconds))
    status, title = row
    return problem(
        status, title, code=error.code, detail=error.message, hint=error.hint, headers=headers
    )


def retry_after(seconds: int) -> tuple[bytes, bytes]:
    """Make the header that says when to come again."""
    return (b"retry-after", b"%d" % seconds)


def internal_error() -> Answer:
    """Make the answer to what nobody foresaw."""
    return problem(
        500,
        "Internal error",
        code=InternalError.code,
        detail="something went wrong in the daemon that should not",
        hint="The daemon's log has the details: agor daemon logs.",
    )


def method_not_allowed(method: str, allow: bytes) -> Answer:
    """Make the answer to a method that this path does not have."""
    return problem(
        405,
        "Method not allowed",
        code="method_not_allowed",
        detail=f"this path does not take {method[:20]}",
        hint=f"It takes {allow.decode()}.",
        headers=[(b"allow", allow)],
    )


def unsupported_media_type() -> Answer:
    """Make the answer to a body that is not said to be JSON."""
    return problem(
        415,
        "Not JSON",
        code="unsupported_media_type",
        detail="the body has to be JSON, and Content-Type has to say so",
        hint="Send the header Content-Type: application/json.",
        headers=[(b"accept", b"application/json")],
    )

"""A POST with an Idempotency-Key: done once, answered every time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agor.daemon.api.answers import Answer, encode
from agor.daemon.api.problems import problem_of, retry_after
from agor.daemon.api.reading import idempotency_key
from agor.daemon.api.route import Request, Route
from agor.daemon.services.receipts import Answered
from agor.errors import Conflict, Unprocessable


def key_of(route: Route, headers: Mapping[bytes, bytes]) -> str | None:
    """Take the key of a request, if it has one and the route honours it."""
    if route.takes_key:
        return idempotency_key(headers)
    if route.confidential and b"idempotency-key" in headers:
        # Nobody shall believe that it is safe to repeat.
        raise Unprocessable(
            "Idempotency-Key: not here, since it takes or gives a secret, which is kept nowhere",
            hint="Leave the header out, and look before you repeat it.",
        )
    return None


async def begin(route: Route, request: Request[Any], key: str) -> Answer | None:
    """Reserve the key for this request, or give the answer that it already has.

    The request then holds the receipt; whoever called this releases it.
    """
    # What was meant, not how it was laid out: the same request may be spelled in another way.
    meant = b"/".join((*(name.encode() for name in request.ids), encode(request.form)))
    try:
        begun = await request.services.receipts.begin(request.who, route.name, key, meant)
    except Conflict as error:
        if (stall := request.services.stall()) is not None:
            # The first one was left waiting for the database, and so would this one be.
            raise stall.again() from None
        answer = problem_of(error)
        assert answer is not None
        return answer._replace(headers=[*answer.headers, retry_after(1)])
    if isinstance(begun, Answered):
        return Answer(begun.status, begun.body, headers=[(b"idempotency-replayed", b"true")])
    request.receipt = begun
    return None

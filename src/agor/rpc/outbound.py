"""The asking half of a conversation: requests of ours that wait for their answers."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from msgspec import UNSET, Raw

from agor.errors import AgorError, InvalidResult, Overloaded
from agor.protocol.envelope import ABSENT, Message, RequestId, revive_error


class Pending:
    """Requests under way on one connection, by id."""

    def __init__(self, max_in_flight: int) -> None:
        self._max_in_flight = max_in_flight
        self._futures: dict[Any, asyncio.Future[Raw]] = {}
        self._last_id = 0
        self._given_up: deque[RequestId] = deque(maxlen=max_in_flight)

    def __len__(self) -> int:
        return len(self._futures)

    def open(self) -> tuple[int, asyncio.Future[Raw]]:
        """Number a new request and make the future of its result."""
        if len(self._futures) >= self._max_in_flight:
            raise Overloaded(
                f"{self._max_in_flight} requests already wait for the other end",
                hint="Wait for answers before asking again.",
            )
        self._last_id += 1
        future: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self._futures[self._last_id] = future
        return self._last_id, future

    def forget(self, request_id: int) -> bool:
        """Stop waiting. True if there was still something to wait for."""
        if self._futures.pop(request_id, None) is None:
            return False
        self._given_up.append(request_id)
        return True

    def settle(self, message: Message) -> bool:
        """Hand an answer to who asked. False if nobody did, or no longer waits."""
        request_id = None if message.id is UNSET else message.id
        future = self._take(request_id)
        if future is None:
            # The last word on a request that was cancelled is no surprise.
            return request_id in self._given_up
        if message.error is ABSENT:
            future.set_result(message.result)
        elif message.result is ABSENT:
            future.set_exception(revive_error(message.error))
        else:
            future.set_exception(InvalidResult("the answer has both a result and an error"))
        return True

    def reject(self, request_id: RequestId, why: str) -> bool:
        """Fail a request whose answer cannot be read. False if nobody waits for it."""
        future = self._take(request_id)
        if future is None:
            return False
        future.set_exception(InvalidResult(f"the answer cannot be read: {why}"))
        return True

    def fail_all(self, error: AgorError) -> None:
        """No more answers will come."""
        futures, self._futures = self._futures, {}
        for future in futures.values():
            if not future.done():
                future.set_exception(error.again())

    def _take(self, request_id: RequestId) -> asyncio.Future[Raw] | None:
        future = self._futures.pop(request_id, None)
        # A caller that was cancelled has not come round to say so yet.
        return None if future is None or future.done() else future

"""Who waits for a free place: bounded, first come first served within a user, users in turn. Pure.

Somebody who asks for fifty executors at once does not keep a colleague who wants one waiting for
all fifty.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

from agor.errors import PoolExhausted

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Those who wait, by user."""

    def __init__(self, most: int) -> None:
        self._most = most
        #: The user whose turn it is comes first.
        self._users: OrderedDict[str, deque[T]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def full(self) -> bool:
        """Whether nobody can join."""
        return self._size >= self._most

    def push(self, user: str, waiter: T) -> None:
        """Join the queue, or hear that it is full."""
        if self.full:
            raise PoolExhausted(
                f"every executor is in use and {self._most} others already wait for one",
                hint="Try again later, stop a session, or raise execution.max_executors.",
            )
        self._users.setdefault(user, deque()).append(waiter)
        self._size += 1

    def pop(self) -> T | None:
        """Take whose turn it is; their user then goes to the end of the row."""
        if not self._users:
            return None
        user, waiters = self._users.popitem(last=False)
        waiter = waiters.popleft()
        self._size -= 1
        if waiters:
            self._users[user] = waiters
        return waiter

    def remove(self, user: str, waiter: T) -> bool:
        """Leave the queue. False if it was one's turn already."""
        waiters = self._users.get(user)
        if waiters is None or waiter not in waiters:
            return False
        waiters.remove(waiter)
        self._size -= 1
        if not waiters:
            del self._users[user]
        return True

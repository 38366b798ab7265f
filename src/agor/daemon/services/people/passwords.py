"""Passwords: argon2id, off the event loop, and few at once.

A hash takes a processor for a tenth of a second and tens of megabytes, on purpose. So at most two
are made at once, and only so many may wait; what one attacker can take of the machine is bounded.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

from agor.errors import Overloaded

T = TypeVar("T")

#: Twice the time that OWASP asks for with this memory (46 MiB); one thread, as two run at once.
_TIME, _MEMORY_KIB, _LANES = 2, 46 * 1024, 1
_AT_ONCE = 2
_MOST_WAITING = 64


class Passwords:
    """Makes hashes of passwords, and compares."""

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher(_TIME, _MEMORY_KIB, _LANES, type=Type.ID)
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="password")
        self._under_way = 0
        self._nobodys = _made_up(self._hasher)

    async def hash(self, password: str) -> str:
        """Make what is stored of a password."""
        return await self._run(lambda: self._hasher.hash(_bytes(password)))

    async def verify(self, stored: str | None, password: str) -> bool:
        """Tell whether this is the password; takes as long where there is none."""
        return await self._run(lambda: self._matches(stored or self._nobodys, password))

    def is_outdated(self, stored: str) -> bool:
        """Tell whether it was made with other parameters than are used now."""
        return self._hasher.check_needs_rehash(stored)

    def close(self) -> None:
        """Begin no more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _matches(self, stored: str, password: str) -> bool:
        try:
            return self._hasher.verify(stored, _bytes(password))
        except (VerificationError, InvalidHashError):
            return False

    async def _run(self, work: Callable[[], T]) -> T:
        if self._under_way >= _AT_ONCE + _MOST_WAITING:
            raise Overloaded("too many passwords are being checked already", hint="Try again.")
        self._under_way += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._under_way -= 1


def _bytes(password: str) -> bytes:
    return password.encode(errors="surrogatepass")


def _made_up(hasher: PasswordHasher) -> str:
    """Spell the hash of no password at all, which takes as long to compare with as any."""
    salt, digest = (
        base64.b64encode(os.urandom(size)).decode().rstrip("=")
        for size in (hasher.salt_len, hasher.hash_len)
    )
    cost = f"m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}"
    return f"$argon2id$v=19${cost}${salt}${digest}"

"""Passwords: hashed off the loop, two at once, and as slow for nobody as for somebody."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from argon2 import PasswordHasher, extract_parameters
from argon2.low_level import Type
from tests.contract.waiting import soon, until

from agor.daemon.services.people.passwords import Passwords
from agor.errors import Overloaded


@pytest.fixture
def passwords() -> Iterator[Passwords]:
    made = Passwords()
    yield made
    made.close()


class Held(PasswordHasher):
    """A hasher whose work takes until it is let go."""

    def __init__(self) -> None:
        super().__init__(1, 8, 1)
        self.go = threading.Event()
        self.at_once = self.most = 0
        self._lock = threading.Lock()

    def verify(self, hash: str | bytes, password: str | bytes) -> bool:  # type: ignore[override]  # noqa: A002
        with self._lock:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        self.go.wait(10)
        with self._lock:
            self.at_once -= 1
        return False


async def test_a_hash_is_of_this_password_and_no_other(passwords: Passwords):
    stored = await passwords.hash("correct horse Grüße 🦊")
    assert stored.startswith("$argon2id$")
    assert await passwords.verify(stored, "correct horse Grüße 🦊")
    assert not await passwords.verify(stored, "correct horse Grüße 🐴")
    assert not await passwords.verify(stored, "")
    assert await passwords.hash("correct horse Grüße 🦊") != stored, "each has a salt of its own"


async def test_nobody_has_no_password(passwords: Passwords):
    assert not await passwords.verify(None, "")
    assert not await passwords.verify("no hash at all", "")


async def test_comparing_with_nobodys_is_the_same_work(passwords: Passwords):
    real = extract_parameters(await passwords.hash("correct horse"))
    assert extract_parameters(passwords._nobodys) == real
    assert real.type is Type.ID
    # What OWASP asks for at least.
    assert real.memory_cost >= 46 * 1024
    assert real.time_cost >= 1


async def test_a_hash_of_other_parameters_is_outdated_and_still_good(passwords: Passwords):
    old = PasswordHasher(1, 64, 1).hash("correct horse")
    assert passwords.is_outdated(old)
    assert await passwords.verify(old, "correct horse")
    assert not passwords.is_outdated(await passwords.hash("correct horse"))


async def test_two_are_compared_at_once_and_the_loop_goes_on():
    hasher = Held()
    passwords = Passwords(hasher)
    work = [asyncio.create_task(passwords.verify(None, "x")) for _ in range(20)]
    await until(lambda: hasher.most == 2)
    hasher.go.set()
    await soon(asyncio.gather(*work))
    assert hasher.most == 2
    passwords.close()


async def test_so_many_may_wait_and_more_are_refused():
    hasher = Held()
    passwords = Passwords(hasher)
    work = [asyncio.create_task(passwords.verify(None, "x")) for _ in range(66)]
    await until(lambda: passwords._under_way == 66)
    with pytest.raises(Overloaded):
        await passwords.verify(None, "x")
    hasher.go.set()
    await soon(asyncio.gather(*work))
    assert not await soon(passwords.verify(None, "x"))
    passwords.close()

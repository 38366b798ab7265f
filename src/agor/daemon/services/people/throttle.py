"""Throttled sign-in: who guesses passwords has to wait, longer each time.

Attempts are counted by the name that is tried, whether there is such a person or not, and by the
address they come from. An attempt counts from its beginning, so many at once gain nothing. A wait
is never over 15 minutes. Whoever has signed in from an address before is counted by both together:
strangers who try that name elsewhere cannot lock its owner out.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

from agor.errors import TooManyAttempts

#: Attempts that may fail before the next one has to wait. Many people may share an address.
FREE_BY_NAME = 5
FREE_BY_ADDRESS = 20
#: Seconds: the longest wait, and the time after which nothing is held against anybody.
LONGEST_WAIT = 15 * 60
_FORGOTTEN_AFTER = 2 * 3600
#: Names, addresses and friends that are remembered; the one not heard of for longest goes first.
MOST_KNOWN = 10_000


class _Tries(Struct):
    """What was tried, by one name or from one address."""

    #: The name, and the address.
    key: tuple[str, str]
    free: int
    failed: int = 0
    #: When the next attempt is heard.
    until: float = 0.0
    last: float = 0.0


class Throttle:
    """What is held against whom. Times are seconds of `clock`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._tries: OrderedDict[tuple[str, str], _Tries] = OrderedDict()
        #: Names that have signed in, with the address they did it from.
        self._friends: OrderedDict[tuple[str, str], None] = OrderedDict()

    def begin(self, name: str | None, address: str) -> Attempt:
        """Hear an attempt, or raise `TooManyAttempts`. It has failed until it says otherwise."""
        at = self.clock()
        place = place_of(address)
        counted = [self._of("", place, FREE_BY_ADDRESS)]
        if name is not None:
            friend = (name, place) in self._friends
            counted.append(self._of(name, place if friend else "", FREE_BY_NAME))
        for tries in counted:
            if at - tries.last > _FORGOTTEN_AFTER:
                tries.failed, tries.until = 0, 0.0
        wait = max(tries.until for tries in counted) - at
        if wait > 0:
            raise _come_back(math.ceil(wait))
        # Only what is heard: whoever is refused could have the others forgotten, at no cost.
        for tries in counted:
            self._remember(tries)
        return Attempt(self, name, place, counted, at)

    def befriend(self, name: str, place: str) -> None:
        """Remember that somebody has signed in from there."""
        self._friends[name, place] = None
        self._friends.move_to_end((name, place))
        if len(self._friends) > MOST_KNOWN:
            self._friends.popitem(last=False)

    def _of(self, name: str, place: str, free: int) -> _Tries:
        return self._tries.get((name, place)) or _Tries((name, place), free)

    def _remember(self, tries: _Tries) -> None:
        self._tries[tries.key] = tries
        self._tries.move_to_end(tries.key)
        if len(self._tries) > MOST_KNOWN:
            self._tries.popitem(last=False)

    def forget(self, tries: _Tries) -> None:
        """Keep no place for what nothing is held against: those that are refused need it."""
        if tries.failed == 0 and self._tries.get(tries.key) is tries:
            del self._tries[tries.key]


class Attempt:
    """One attempt to sign in."""

    def __init__(
        self, throttle: Throttle, name: str | None, place: str, counted: list[_Tries], at: float
    ) -> None:
        self._throttle = throttle
        self._name = name
        self._place = place
        self._counted = counted
        #: How it was before, and what this attempt made of it.
        self._before = [(tries.failed, tries.until) for tries in counted]
        for tries in counted:
            tries.failed += 1
            tries.last = at
            tries.until = at + _wait_after(tries)
        self._after = [(tries.failed, tries.until) for tries in counted]

    def succeeded(self) -> None:
        """It was the right one: forget what was tried with this name."""
        self.take_back()
        for tries in self._counted[1:]:
            tries.failed, tries.until = 0, 0.0
            self._throttle.forget(tries)
        if self._name is not None:
            self._throttle.befriend(self._name, self._place)

    def take_back(self) -> None:
        """It does not count: it was the right one, or we could not look."""
        for tries, before, after in zip(self._counted, self._before, self._after, strict=True):
            if (tries.failed, tries.until) == after:
                tries.failed, tries.until = before
            else:
                # Others have tried meanwhile, and theirs still counts.
                tries.failed = max(0, tries.failed - 1)
            self._throttle.forget(tries)


def place_of(address: str) -> str:
    """Tell whose an address is: of the newer kind, each has a whole network of them."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))


def _wait_after(tries: _Tries) -> float:
    more = tries.failed - tries.free
    return 0.0 if more < 0 else float(min(2 ** min(more, 20), LONGEST_WAIT))


def _come_back(seconds: int) -> TooManyAttempts:
    return TooManyAttempts(
        "there were too many attempts to sign in",
        hint=f"Try again in {seconds} s.",
        retry_after=seconds,
    )

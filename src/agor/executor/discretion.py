"""Keeps keys out of what a task tells about itself, whoever's words that are.

An agent's program may say its key as it dies, and a provider may repeat it as it refuses. What the
agent and the model say to each other is left as it is: a conversation that was changed is none.
"""

from __future__ import annotations

import msgspec

from agor.protocol.events import Event, Log, Problem

#: Shorter ones are parts of ordinary words.
_SHORT = 8
_INSTEAD = "…"


class Discretion:
    """The keys that a task was given, and words without them."""

    def __init__(self) -> None:
        self._keys: set[str] = set()

    def note(self, key: str) -> None:
        """Remember a key."""
        if len(key) >= _SHORT:
            self._keys.add(key)

    def event(self, event: Event) -> Event:
        """Take keys out of a remark or an error; other events are as they were."""
        if not self._keys:
            return event
        if type(event) is Log:
            return msgspec.structs.replace(event, message=self._without(event.message))
        return self.problem(event) if type(event) is Problem else event

    def problem(self, problem: Problem) -> Problem:
        """Take keys out of the words of an error."""
        hint = None if problem.hint is None else self._without(problem.hint)
        message = self._without(problem.message)
        return msgspec.structs.replace(problem, message=message, hint=hint)

    def _without(self, words: str) -> str:
        # The longest first: one may be part of another.
        for key in sorted(self._keys, key=len, reverse=True):
            words = words.replace(key, _INSTEAD)
        return words

"""Where a session's events go: to a person's eyes, or to a program."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, Protocol, cast

import msgspec
from rich.console import Console
from rich.text import Text

from agor.cli.printable import printable
from agor.cli.view import EventView
from agor.protocol.api import FeedEvent, Message, Permission, TaskState
from agor.protocol.events import (
    EVENT_FORMS,
    BlockComplete,
    BlockDelta,
    BlockStart,
    BlockUpdate,
    Event,
)


class Showing(Protocol):
    """Whoever is shown a session."""

    def take(self, event: FeedEvent) -> None:
        """Show the next event."""

    def doing(self, what: str, hint: str) -> None:
        """Say what is going on."""

    def note(self, words: str) -> None:
        """Say something beside the conversation."""

    def aside_note(self, words: str) -> None:
        """Say something that is not for who reads the output."""


class ForPrograms:
    """Each event as a line of JSON, as the feed has it."""

    def take(self, event: FeedEvent) -> None:
        """Print it."""
        sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
        sys.stdout.buffer.flush()

    def doing(self, what: str, hint: str) -> None:
        """Programs see it in the events."""

    def note(self, words: str) -> None:
        """To standard error: people may look at it."""
        _to_stderr(words)

    aside_note = note


class ForPeople:
    """A conversation as people like to read it."""

    def __init__(self, console: Console, view: EventView, *, but: str | None = None) -> None:
        self._console = console
        self._view = view
        #: The task whose prompt the person has just typed.
        self._but = but

    def take(self, event: FeedEvent) -> None:
        """Show an event, if there is anything to see."""
        if event.type == "task":
            task = msgspec.convert(event.data, TaskState)
            if task.ended_at is not None:
                self._view.end(task)
            return
        form = EVENT_FORMS.get(event.type)
        if form is None or (self._but == event.task_id and _is_prompt(event.data)):
            return
        # What does not have its form changes nothing, here as in the daemon.
        with contextlib.suppress(msgspec.ValidationError):
            self._view.show(cast("Event", msgspec.convert(event.data, form)))

    def end(self, task: TaskState) -> None:
        """Show how a task has ended."""
        self._view.end(task)

    def replay(self, messages: list[Message], *, more: bool) -> None:
        """Show what was said before; what is not complete goes on with the next events."""
        if more:
            self._view.note("… earlier: agor session show --conversation")
        for message in messages:
            for event in _events_of(message):
                self._view.show(event)

    def doing(self, what: str, hint: str) -> None:
        """Say what is going on, in the line below."""
        self._view.doing(what, hint)

    def note(self, words: str) -> None:
        """Say something in between."""
        self._view.note(words)

    def aside_note(self, words: str) -> None:
        """To standard error where that is another place, so that the output can be kept."""
        if self._console.is_terminal:
            self._view.note(words, "yellow")
        else:
            _to_stderr(words)

    def changes(self, asked: Permission) -> None:
        """Show what somebody is asked about, if it was not shown already."""
        self._view.show_changes(asked.tool_input, asked.tool_use_id)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Leave the terminal to somebody else."""
        self._view.pause()
        try:
            yield
        finally:
            self._view.resume()


def _is_prompt(data: Any) -> bool:
    return isinstance(data, dict) and str(data.get("block_id")).endswith("-prompt")


def _events_of(message: Message) -> Iterator[Event]:
    """Tell of a block as if it had just happened."""
    block_id = message.message_id
    yield BlockStart(
        block_id,
        message.kind,
        message.parent_tool_use_id,
        message.tool_use_id,
        message.tool_name,
        message.tool_input,
    )
    if message.text:
        yield BlockDelta(block_id, 0, message.text)
        if message.length > len(message.text):
            yield BlockDelta(block_id, 1, f"\n… {message.length - len(message.text)} more")
    if message.status is not None:
        yield BlockUpdate(block_id, message.status, None, message.reason)
    if message.complete:
        yield BlockComplete(block_id, 1, message.length, message.is_error)


def _to_stderr(words: str) -> None:
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text(printable(words), "dim"))

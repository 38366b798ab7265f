"""Shows a conversation as a person would like to read it.

What an agent says is rendered as it comes; a tool call is one line, with what it changes and the
first lines of what it gave back. What a sub-agent does stands further to the right.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.text import Text

from agor.cli.block_views import BlockView, new_view
from agor.cli.diffs import DIFF_LINES, diff_lines
from agor.cli.printable import printable
from agor.cli.screen import Screen
from agor.cli.task_facts import ending
from agor.cli.tool_calls import brief, changes_of
from agor.protocol.api import TaskState
from agor.protocol.events import (
    BlockComplete,
    BlockDelta,
    BlockStart,
    BlockUpdate,
    Event,
    Log,
    Problem,
    Status,
)

#: How far to the right sub-agents of sub-agents go.
_DEEPEST = 6
_MARKS = {"failed": ("✗", "red"), "denied": ("⊘", "yellow")}


class EventView:
    """A view on one conversation. Use it as a context manager, so that the terminal is in order."""

    def __init__(self, console: Console, *, workspace: str | None = None) -> None:
        self._screen = Screen(console)
        self._screen.growing = self._growing
        self._within = f"{workspace}/" if workspace else None
        self._blocks: dict[str, BlockView] = {}
        self._calls: dict[str, _Call] = {}
        #: How deep the blocks below a tool call are.
        self._depths: dict[str, int] = {}
        self._current: str | None = None
        #: Calls whose changes were shown, by us or by who asks about them.
        self._known: set[str] = set()
        self._denied: set[str] = set()
        self._names: dict[str, str] = {}
        #: The call below whose line a result needs no name.
        self._last_call: str | None = None

    def __enter__(self) -> Self:
        self._screen.resume()
        return self

    def __exit__(self, *_: object) -> None:
        self.pause()

    def pause(self) -> None:
        """Print all there is, and leave the terminal to somebody else."""
        self._finish_all()
        self._screen.pause()
        self._screen.set_apart()

    def resume(self) -> None:
        """Take it back."""
        self._screen.resume()

    def doing(self, what: str, hint: str = "") -> None:
        """Say what is going on, for as long as nothing else is known."""
        self._screen.doing, self._screen.hint = what, hint

    def note(self, words: str, style: str = "dim") -> None:
        """Say something beside the conversation."""
        self._screen.print(Text(printable(words), style), group="notes")

    def show(self, event: Event) -> None:
        """Show the next event."""
        match event:
            case BlockDelta(block_id, _, text):
                self._grow(block_id, text)
            case BlockStart():
                self._start(event)
            case BlockUpdate():
                self._update(event)
            case BlockComplete(block_id):
                self._finish(block_id)
            case Status(state):
                self._screen.doing = state.replace("_", " ")
            case Log("warning" | "error", message):
                self._screen.print(Text(printable(f"· {message}"), "yellow"), group="notes")
            case Log("info", message):
                self._screen.print(Text(printable(f"· {message}"), "cyan"), group="notes")
            case Problem():
                self._problem(event)
            case _:
                pass

    def end(self, task: TaskState) -> None:
        """Show how a task has ended: its time, tokens and cost."""
        self._finish_all()
        self._screen.doing = ""
        # Who stopped it knows why.
        if task.error is not None and task.status != "stopped":
            self._problem(task.error)
        self._screen.print(ending(task), group="end")

    # ── blocks ───────────────────────────────────────────────────────────────────────────────

    def _start(self, start: BlockStart) -> None:
        # Another one with the same id is another block.
        self._finish(start.block_id)
        depth = self._depths.get(start.parent_tool_use_id or "", 0)
        if start.kind in ("tool_use", "subagent"):
            name = start.tool_name or ("agent" if start.kind == "subagent" else "tool")
            call = _Call(name, start.tool_input or {}, depth, start.tool_use_id)
            self._calls[start.block_id] = call
            if start.tool_use_id is not None:
                self._depths[start.tool_use_id] = min(depth + 1, _DEEPEST)
                self._names[start.tool_use_id] = name
            self._screen.doing = f"using {name}"
            if call.tool_input:
                self._head(call)
            return
        if start.kind == "tool_result":
            if start.tool_use_id in self._denied:
                return
            # The agent may have told of nothing else since the call began.
            for call in self._calls.values():
                if call.tool_use_id == start.tool_use_id:
                    self._head(call)
            depth = max(0, self._depths.get(start.tool_use_id or "", depth + 1) - 1)
            known = start.tool_use_id is None or start.tool_use_id == self._last_call
            name = "" if known else self._names.get(start.tool_use_id or "", "")
        else:
            name = ""
            self._screen.doing = "thinking" if start.kind == "thinking" else "answering"
        block = new_view(start.kind, name=printable(name), rendered=self._screen.rendered)
        block.depth = depth
        self._blocks[start.block_id] = block

    def _grow(self, block_id: str, text: str) -> None:
        block = self._blocks.get(block_id)
        if block is not None:
            self._current = block_id
            self._print(block, block.add(text))

    def _finish(self, block_id: str) -> None:
        call = self._calls.pop(block_id, None)
        if call is not None:
            self._head(call)
        block = self._blocks.pop(block_id, None)
        if block is not None:
            self._print(block, block.finish())

    def _finish_all(self) -> None:
        """Print what is not whole as it is; what comes of it later follows."""
        for call in self._calls.values():
            self._head(call)
        for block in self._blocks.values():
            self._print(block, block.finish())

    def _print(self, block: BlockView, pieces: Iterator[RenderableType]) -> None:
        for piece in pieces:
            self._screen.print(piece, group=block.group, depth=block.depth)

    def _growing(self) -> RenderableType | None:
        block = self._blocks.get(self._current or "")
        return None if block is None else block.growing

    # ── tools ────────────────────────────────────────────────────────────────────────────────

    def _head(self, call: _Call) -> None:
        """Show a tool call, once: its line, and what it changes."""
        if call.shown:
            return
        call.shown = True
        line = Text.assemble(("● ", "blue"), (printable(call.name), "bold"))
        line.append(f"  {self._short(brief(call.name, call.tool_input))}", "dim")
        line.no_wrap, line.overflow = True, "ellipsis"
        self._screen.print(line, group="tools", depth=call.depth)
        self._last_call = call.tool_use_id
        self.show_changes(call.tool_input, call.tool_use_id, depth=call.depth)

    def show_changes(
        self, tool_input: dict[str, Any], tool_use_id: str | None, *, depth: int = 0
    ) -> None:
        """Show what a call would change, unless that was shown already."""
        if tool_use_id is not None and tool_use_id in self._known:
            return
        lines = diff_lines(changes_of(tool_input), DIFF_LINES)
        if lines and tool_use_id is not None:
            self._known.add(tool_use_id)
        for line in lines:
            self._screen.print(line, group="tools", depth=depth + 2)

    def _update(self, update: BlockUpdate) -> None:
        call = self._calls.get(update.block_id)
        if call is None:
            return
        if update.tool_input is not None:
            call.tool_input = update.tool_input
            self._head(call)
        mark = _MARKS.get(update.status or "")
        if mark is not None:
            self._head(call)
            if update.status == "denied" and call.tool_use_id is not None:
                # Its result would only repeat why.
                self._denied.add(call.tool_use_id)
            sign, style = mark
            reason = f": {update.reason}" if update.reason else ""
            words = Text(printable(f"  {sign} {update.status}{reason}"), style)
            self._screen.print(words, group="tools", depth=call.depth)

    def _short(self, words: str) -> str:
        """Name what is in the workspace as it is called there."""
        return words.replace(self._within, "") if self._within else words

    # ── the end ──────────────────────────────────────────────────────────────────────────────

    def _problem(self, problem: Problem) -> None:
        self._screen.print(Text(printable(f"✗ {problem.message}"), "red"), group="problem")
        if problem.hint:
            self._screen.print(Text(printable(f"  {problem.hint}"), "dim"), group="problem")


class _Call:
    """A tool call that is under way."""

    def __init__(
        self, name: str, tool_input: dict[str, Any], depth: int, tool_use_id: str | None
    ) -> None:
        self.name = name
        self.tool_input = tool_input
        self.depth = depth
        self.tool_use_id = tool_use_id
        self.shown = False

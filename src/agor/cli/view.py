"""Shows a task's events as a person would like to read them.

Whole lines are printed as they come; in a terminal the unfinished line and a spinner follow below.
Without a terminal or without colour it is plain text in the same order.
"""

from __future__ import annotations

import time
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from agor.cli.printable import printable
from agor.protocol.events import (
    BlockComplete,
    BlockDelta,
    BlockStart,
    BlockUpdate,
    Event,
    Log,
    MetadataUpdate,
    Problem,
    Status,
    TaskResult,
)

_STYLES = {"text": "", "thinking": "italic dim", "tool_result": "dim", "error": "red"}
_INDENT = {"tool_result": "    "}
_MARKS = {
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "denied": ("⊘", "yellow"),
    "awaiting_permission": ("?", "yellow"),
}


class EventView:
    """A view on one task. Use it as a context manager, so that the terminal is left in order."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = self._new_live()
        self._kinds: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._reasons: dict[str, str] = {}
        self._block: str | None = None
        self._line = ""
        self._doing = "starting"
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end_line()
        self._live.stop()

    def pause(self) -> None:
        """Leave the terminal to somebody else, to ask a question for example."""
        self._end_line()
        self._live.stop()

    def resume(self) -> None:
        """Take it back."""
        # Another one: it would begin by wiping out what was shown meanwhile.
        self._live = self._new_live()
        self._live.start()

    def _new_live(self) -> Live:
        return Live(console=self._console, transient=True, refresh_per_second=12)

    def show(self, event: Event) -> None:
        """Show the next event."""
        match event:
            case BlockStart():
                self._start_block(event)
            case BlockDelta(block_id, _, text):
                self._add(block_id, text)
            case BlockUpdate():
                self._update_tool(event)
            case BlockComplete(block_id):
                if block_id == self._block:
                    self._end_line()
            case Status(state):
                self._doing = state.replace("_", " ")
            case Log(_, message):
                self._print(Text(f"  · {message}", "cyan"))
            case Problem():
                self._problem(event)
            case TaskResult():
                self._result(event)
            case MetadataUpdate():
                pass
        self._refresh()

    # ── blocks ───────────────────────────────────────────────────────────────────────────────

    def _start_block(self, event: BlockStart) -> None:
        self._end_line()
        self._kinds[event.block_id] = event.kind
        if event.kind == "tool_use":
            self._names[event.block_id] = event.tool_name or "tool"
            self._doing = f"running {event.tool_name}"
            line = Text.assemble(("● ", "blue"), (event.tool_name or "tool", "bold"))
            line.append(f"  {brief(event.tool_input or {})}", "dim")
            self._print(line)
        elif event.kind != "tool_result":
            self._doing = "thinking" if event.kind == "thinking" else "answering"

    def _update_tool(self, event: BlockUpdate) -> None:
        mark = _MARKS.get(event.status or "")
        if mark is None:
            return
        self._end_line()
        sign, style = mark
        words = (event.status or "").replace("_", " ")
        name = self._names.get(event.block_id, "tool")
        self._print(Text(f"  {sign} {name}: {words}{_because(event.reason)}", style))

    def _add(self, block_id: str, text: str) -> None:
        if self._block != block_id:
            self._end_line()
            self._block = block_id
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._print(self._styled(line))

    def _end_line(self) -> None:
        if self._line:
            self._print(self._styled(self._line))
        self._line = ""
        self._block = None

    def _styled(self, line: str) -> Text:
        kind = self._kinds.get(self._block or "", "text")
        return Text(_INDENT.get(kind, "") + line, _STYLES.get(kind, ""))

    # ── the end ──────────────────────────────────────────────────────────────────────────────

    def _problem(self, problem: Problem) -> None:
        self._print(Text(f"  ✗ {problem.message}", "red"))
        if problem.hint:
            self._print(Text(f"    {problem.hint}", "dim"))

    def _result(self, result: TaskResult) -> None:
        self._end_line()
        if result.error is not None:
            self._problem(result.error)
        sign, style = ("✓", "green") if result.status == "completed" else ("✗", "red")
        usage = result.token_usage
        facts = [
            f"{sign} {result.status}",
            f"{result.message_count} blocks",
            f"{usage.input} tokens in, {usage.output} out",
            f"{time.monotonic() - self._began:.1f} s",
        ]
        if result.cost:
            facts.insert(3, f"${result.cost:.4f}")
        self._doing = ""
        self._print(Text(" · ".join(facts), f"bold {style}"))

    # ── the terminal ─────────────────────────────────────────────────────────────────────────

    def _print(self, line: Text) -> None:
        line.plain = printable(line.plain)
        self._console.print(line, highlight=False, soft_wrap=True)

    def _refresh(self) -> None:
        parts: list[RenderableType] = []
        if self._line:
            parts.append(self._styled(self._line))
        if self._doing and self._console.is_terminal:
            seconds = f"{time.monotonic() - self._began:.0f} s"
            parts.append(Spinner("dots", Text(f" {self._doing} · {seconds}", "dim")))
        self._live.update(Group(*parts))


def brief(tool_input: dict[str, Any]) -> str:
    """Put a tool's input on one line."""
    words = " ".join(
        " ".join(map(str, value)) if isinstance(value, list) else str(value)
        for value in tool_input.values()
    )
    first, *rest = printable(words).splitlines() or [""]
    return first[:100] + ("…" if rest or len(first) > 100 else "")


def _because(reason: str | None) -> str:
    return f" ({reason})" if reason else ""

"""The blocks of one item of Codex, as they are told: a text, or a tool's use and its result."""

from __future__ import annotations

from agor.agents.codex import items
from agor.agents.codex.items import Item
from agor.agents.turn import Block, Turn

#: What stands in a result before output that Codex kept back while it streamed the rest.
KEPT_BACK = "\n[printed before that:]\n"
#: Characters of output that are kept to find out what was not streamed.
_MOST_COMPARED = 1024 * 1024


class Text:
    """A block of text that begins with its first word: some items never have any."""

    def __init__(self, turn: Turn, item: Item, parent: str | None) -> None:
        self._turn = turn
        self._kind = items.TEXTS[item["type"]]
        self._parent = parent
        self._block: Block | None = None
        self._empty = True

    async def add(self, text: str) -> None:
        """Tell the next piece."""
        if self._block is None:
            self._block = await self._turn.start_block(self._kind, parent_tool_use_id=self._parent)
        self._empty = False
        await self._block.add(text)

    async def part(self) -> None:
        """Begin another part of the same thought."""
        if not self._empty:
            await self.add("\n\n")

    async def finish(self, item: Item | None) -> None:
        """Tell what was not streamed, and that this is all."""
        if self._empty and item is not None and (text := items.text_of(item)):
            await self.add(text)
        if self._block is not None:
            await self._block.complete()


class Call:
    """A tool call: the block of its use, and that of its result once there is some."""

    def __init__(self, turn: Turn, item: Item, use: Block, parent: str | None) -> None:
        self._turn = turn
        self.item = item
        self.use = use
        self._parent = parent
        self.asked = False
        #: Why it may not happen, once somebody said so.
        self.denial: str | None = None
        self._result: Block | None = None
        self._streamed: list[str] = []
        self._length = 0

    async def output(self, text: str) -> None:
        """Tell what a command prints."""
        if text:
            self._length += len(text)
            if self._length <= _MOST_COMPARED:
                self._streamed.append(text)
            await (await self._result_block()).add(text)

    async def finish(self, item: Item) -> None:
        """Tell what came of it."""
        declined = self.denial is not None or items.is_declined(item)
        failed = declined or items.is_failed(item)
        if declined and self.denial is None:
            await self.use.update("denied")
        elif not declined:
            await self.use.update("failed" if failed else "completed", reason=items.failure(item))
        await self.use.complete(is_error=failed)
        block = await self._result_block()
        if text := (self.denial or "denied") if declined else self._untold(items.result_text(item)):
            await block.add(text)
        await block.complete(is_error=failed)

    async def close(self, text: str = "", reason: str | None = None) -> None:
        """Tell that it is over for this turn, whatever it does from here on."""
        await self.use.update("completed", reason=reason)
        await self.use.complete()
        block = await self._result_block()
        await block.add(text)
        await block.complete()

    async def _result_block(self) -> Block:
        if self._result is None:
            self._result = await self._turn.start_block(
                "tool_result", tool_use_id=self.item["id"], parent_tool_use_id=self._parent
            )
        return self._result

    def _untold(self, whole: str) -> str:
        """Find what was not streamed. Codex streams nothing of a command's first moments."""
        if self._length > _MOST_COMPARED:
            return ""  # Of long output Codex keeps less than it has streamed.
        streamed = "".join(self._streamed)
        if whole.startswith(streamed):
            return whole[len(streamed) :]
        return KEPT_BACK + whole[: -len(streamed)] if whole.endswith(streamed) else ""

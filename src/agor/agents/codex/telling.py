"""Tells what a turn of Codex does, item by item, as blocks."""

from __future__ import annotations

from agor.agents.codex import items
from agor.agents.codex.app_server import Json, Message
from agor.agents.codex.items import Item
from agor.agents.turn import Block, Turn
from agor.protocol.events import MetadataUpdate, TokenUsage

#: What stands in a result before output that Codex kept back while it streamed the rest.
KEPT_BACK = "\n[printed before that:]\n"
#: Said of a command that runs on when its turn is over.
STILL_RUNNING = "still running in the background"


class Text:
    """A block of text that begins with its first word: some items never have any."""

    def __init__(self, turn: Turn, item: Item) -> None:
        self._turn = turn
        self._kind = items.TEXTS[item["type"]]
        self._block: Block | None = None
        self._empty = True

    async def add(self, text: str) -> None:
        """Tell the next piece."""
        if self._block is None:
            self._block = await self._turn.start_block(self._kind)
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

    def __init__(self, turn: Turn, item: Item, use: Block) -> None:
        self._turn = turn
        self.item = item
        self.use = use
        self.asked = False
        #: Why it may not happen, once somebody said so.
        self.denial: str | None = None
        self._result: Block | None = None
        self._streamed = ""

    async def output(self, text: str) -> None:
        """Tell what a command prints."""
        if text:
            self._streamed += text
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

    async def leave(self) -> None:
        """Let it run on: the turn is over, and it is not."""
        await self.use.update("completed", reason=STILL_RUNNING)
        await self.use.complete()
        await (await self._result_block()).complete()

    async def _result_block(self) -> Block:
        if self._result is None:
            self._result = await self._turn.start_block("tool_result", tool_use_id=self.item["id"])
        return self._result

    def _untold(self, whole: str) -> str:
        """Find what was not streamed. Codex streams nothing of a command's first moments."""
        if whole.startswith(self._streamed):
            return whole[len(self._streamed) :]
        if whole.endswith(self._streamed):
            return KEPT_BACK + whole[: -len(self._streamed)]
        return ""  # Long output is kept without its middle, but was streamed with it.


class Telling:
    """The blocks of one turn."""

    def __init__(self, turn: Turn, thread_id: str) -> None:
        self._turn = turn
        self._thread_id = thread_id
        self._texts: dict[str, Text] = {}
        self.calls: dict[str, Call] = {}
        self._totals: Json | None = None

    async def take(self, message: Message) -> None:
        """Tell what a message says, if it says something of this conversation."""
        params = message.params
        if params.get("threadId") != self._thread_id:
            return
        match message.method:
            case "item/agentMessage/delta" | "item/plan/delta" | "item/reasoning/summaryTextDelta":
                if text := self._texts.get(params["itemId"]):
                    await text.add(params["delta"])
            case "item/reasoning/summaryPartAdded":
                if text := self._texts.get(params["itemId"]):
                    await text.part()
            case "item/commandExecution/outputDelta":
                if call := self.calls.get(params["itemId"]):
                    await call.output(params["delta"])
            case "item/started":
                await self._begin(params["item"])
            case "item/completed":
                await self._finish(params["item"])
            case "thread/tokenUsage/updated":
                await self._count(params["tokenUsage"])

    async def begin_call(self, item: Item) -> Call:
        """Begin a tool call."""
        use = await self._turn.start_block(
            "tool_use",
            tool_use_id=item["id"],
            tool_name=items.tool_name(item),
            tool_input=items.tool_input(item),
        )
        call = self.calls[item["id"]] = Call(self._turn, item, use)
        return call

    async def end(self) -> None:
        """Complete what is open when the turn is over."""
        for text in self._texts.values():
            await text.finish(None)
        for call in self.calls.values():
            await call.leave()

    async def _begin(self, item: Item) -> None:
        if item["type"] in items.TEXTS:
            self._texts[item["id"]] = Text(self._turn, item)
        elif item["type"] in items.CALLS and item["id"] not in self.calls:
            await self.begin_call(item)

    async def _finish(self, item: Item) -> None:
        if item["type"] in items.TEXTS:
            text = self._texts.pop(item["id"], None) or Text(self._turn, item)
            await text.finish(item)
        elif item["type"] in items.CALLS:
            call = self.calls.pop(item["id"], None) or await self.begin_call(item)
            self.calls.pop(item["id"], None)
            await call.finish(item)
        elif item["type"] == "contextCompaction":
            block = await self._turn.start_block("system")
            await block.add("The conversation was summed up to make room.")
            await block.complete()

    async def _count(self, usage: Json) -> None:
        """Add up the tokens of the turn: the totals are those of the whole conversation."""
        if usage["total"] == self._totals:
            return
        self._totals, last, so_far = usage["total"], usage["last"], self._turn.usage
        read, written = last["cachedInputTokens"], last.get("cacheWriteInputTokens", 0)
        self._turn.usage = TokenUsage(
            input=so_far.input + max(0, last["inputTokens"] - read - written),
            output=so_far.output + last["outputTokens"],
            cache_read=so_far.cache_read + read,
            cache_write=so_far.cache_write + written,
        )
        await self._turn.tell(MetadataUpdate(usage=self._turn.usage))

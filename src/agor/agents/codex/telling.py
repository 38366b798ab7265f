"""Tells what a turn of Codex does, item by item, as blocks.

A sub-agent is a conversation of its own in the same server. What it does is told as well, under the
call that it began with.
"""

from __future__ import annotations

from agor.agents.codex import items
from agor.agents.codex.app_server import Json, Message
from agor.agents.codex.blocks import Call, Text
from agor.agents.codex.items import Item
from agor.agents.turn import Turn
from agor.protocol.events import MetadataUpdate, TokenUsage

#: Said of a command that runs on when its turn is over.
STILL_RUNNING = "still running in the background"
SUMMED_UP = "The conversation was summed up to make room."


class Telling:
    """The blocks of one turn."""

    def __init__(self, turn: Turn, thread_id: str, parents: dict[str, str]) -> None:
        self._turn = turn
        self._thread_id = thread_id
        self._begun = False
        #: The call that each sub-agent began with; it may work on in later turns.
        self._parents = parents
        self._texts: dict[str, Text] = {}
        self.calls: dict[str, Call] = {}
        self._agents: dict[str, Call] = {}
        self._idle: set[str] = set()
        self._last_words: dict[str, str] = {}
        self._totals: dict[str, Json] = {}

    @property
    def waiting(self) -> bool:
        """Whether a sub-agent that this turn began is still at work."""
        return not self._agents.keys() <= self._idle

    async def take(self, message: Message) -> None:
        """Tell what a message says, if it says something of this conversation."""
        params = message.params
        thread = params.get("threadId")
        if not isinstance(thread, str) or (
            thread != self._thread_id and thread not in self._parents
        ):
            return
        match message.method:
            case "turn/started":
                self._begun = True
                self._idle.discard(thread)
            case "turn/completed":
                self._idle.add(thread)
            case "item/started":
                await self._begin(params["item"], thread)
            case "item/completed":
                await self._finish(params["item"], thread)
            case "thread/tokenUsage/updated" if self._begun:
                # Before, it is what was used up to the moment of resuming.
                await self._count(params["tokenUsage"], thread)
            case method if "itemId" in params:
                await self._grow(method, params)

    async def begin_call(self, item: Item, thread: str) -> Call:
        """Begin a tool call."""
        parent = self._parents.get(thread)
        use = await self._turn.start_block(
            "tool_use",
            parent_tool_use_id=parent,
            tool_use_id=item["id"],
            tool_name=items.tool_name(item),
            tool_input=items.tool_input(item),
        )
        return Call(self._turn, item, use, parent)

    async def call(self, item: Item, thread: str) -> Call:
        """Find a tool call, or begin it."""
        known = self.calls.get(item["id"])
        if known is None:
            known = self.calls[item["id"]] = await self.begin_call(item, thread)
        return known

    async def end(self) -> None:
        """Complete what is open when the turn is over."""
        for text in self._texts.values():
            await text.finish(None)
        for call in self.calls.values():
            await call.close(reason=STILL_RUNNING)
        for agent, call in self._agents.items():
            await call.close(self._last_words.get(agent, ""))

    async def _grow(self, method: str, params: Json) -> None:
        text, call = self._texts.get(params["itemId"]), self.calls.get(params["itemId"])
        match method:
            case "item/agentMessage/delta" | "item/plan/delta" | "item/reasoning/summaryTextDelta":
                if text is not None:
                    await text.add(params["delta"])
            case "item/reasoning/summaryPartAdded" if text is not None:
                await text.part()
            case "item/commandExecution/outputDelta" if call is not None:
                await call.output(params["delta"])

    # ── items ────────────────────────────────────────────────────────────────────────────────

    async def _begin(self, item: Item, thread: str) -> None:
        if item["type"] in items.TEXTS:
            self._texts[item["id"]] = Text(self._turn, item, self._parents.get(thread))
        elif item["type"] in items.CALLS:
            await self.call(item, thread)
        elif item["type"] == "subAgentActivity":
            await self._follow(item, thread)

    async def _finish(self, item: Item, thread: str) -> None:
        if item["type"] in items.TEXTS:
            text = self._texts.pop(item["id"], None)
            await (text or Text(self._turn, item, self._parents.get(thread))).finish(item)
            if item["type"] == "agentMessage":
                self._last_words[thread] = items.text_of(item)
        elif item["type"] in items.CALLS:
            call = await self.call(item, thread)
            del self.calls[item["id"]]
            await call.finish(item)
        elif item["type"] == "contextCompaction":
            block = await self._turn.start_block(
                "system", parent_tool_use_id=self._parents.get(thread)
            )
            await block.add(SUMMED_UP)
            await block.complete()

    async def _follow(self, item: Item, thread: str) -> None:
        """Follow a sub-agent from its beginning to its last words."""
        agent = item["agentThreadId"]
        if item["kind"] == "started" and agent not in self._parents:
            self._agents[agent] = await self.begin_call(item, thread)
            self._parents[agent] = item["id"]
        elif item["kind"] in ("completed", "interrupted"):
            call = self._agents.pop(agent, None)
            if call is not None:
                await call.close(self._last_words.get(agent, ""))

    async def _count(self, usage: Json, thread: str) -> None:
        """Add up the tokens of the turn: the totals are those of the whole conversation."""
        if usage["total"] == self._totals.get(thread):
            return
        self._totals[thread], last, so_far = usage["total"], usage["last"], self._turn.usage
        read, written = last["cachedInputTokens"], last.get("cacheWriteInputTokens", 0)
        self._turn.usage = TokenUsage(
            input=so_far.input + max(0, last["inputTokens"] - read - written),
            output=so_far.output + last["outputTokens"],
            cache_read=so_far.cache_read + read,
            cache_write=so_far.cache_write + written,
        )
        await self._turn.tell(MetadataUpdate(usage=self._turn.usage))

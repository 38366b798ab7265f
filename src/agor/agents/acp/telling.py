"""One turn of an ACP agent, told as it happens: its updates as blocks, its questions answered."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from agor.agents.acp.blocks import Add, Blocks, Change, End, Naming, Start, Step
from agor.agents.acp.calls import ENDED, Call
from agor.agents.acp.permissions import PLANNING, answer, called_off, changes_nothing
from agor.agents.acp.said import Question, Said
from agor.agents.turn import Block, Turn
from agor.errors import AgentFailed

if TYPE_CHECKING:
    from acp.schema import SessionNotification

T = TypeVar("T")

#: Seconds until the input of a call is told that was asked about before.
_INPUT_PATIENCE = 10.0
_CHANGED_INPUT = "this agent cannot run a tool with another input than its own"


class Telling:
    """Takes what an agent says in one turn."""

    def __init__(
        self,
        turn: Turn,
        session_id: str,
        naming: Naming,
        *,
        said: Said,
        writable: set[str],
        rejected: Callable[[Call], str | None],
        complete: Callable[[Any], Awaitable[None]],
        needs_no_word: Callable[[Call], bool],
    ) -> None:
        self._turn = turn
        self._session_id = session_id
        self._naming = naming
        self._said = said
        self._writable = writable
        #: What a known agent tells its model after a no, if it does not tell us.
        self._rejected = rejected
        #: What a known agent knows of a call that is over, and does not tell.
        self._complete = complete
        #: What a known agent asks about and others do not.
        self._needs_no_word = needs_no_word
        self._blocks = Blocks(naming)
        self._open: dict[str, Block] = {}
        self._names: dict[str, str] = {}
        self._approved: set[str] = set()
        self._order = asyncio.Lock()
        self._taken = asyncio.Event()
        self._asking: set[asyncio.Task[None]] = set()
        #: What went wrong while a question was asked.
        self._failure: BaseException | None = None
        #: What the conversation has cost so far, if the agent says it.
        self.cost: float | None = None

    async def tell_until(self, answer: asyncio.Future[T]) -> T:
        """Tell what the agent says until it has answered, and all is told."""
        answer.add_done_callback(lambda _: self._said.wake())
        while True:
            # Looked at first: what is there once it has answered was said before that.
            answered = answer.done()
            while (said := self._said.next()) is not None:
                await self._take(said)
            if self._failure is not None:
                raise self._failure
            if answered:
                return answer.result()
            await self._said.news()

    async def _take(self, said: SessionNotification | Question) -> None:
        if isinstance(said, Question):
            asking = asyncio.create_task(self._ask(said))
            self._asking.add(asking)
            asking.add_done_callback(self._asked)
            return
        if said.session_id != self._session_id:
            return
        update = said.update
        if update.session_update == "usage_update":
            if update.cost is not None and update.cost.currency.upper() == "USD":
                self.cost = update.cost.amount
            return
        if getattr(update, "status", None) in ENDED:
            await self._complete(update)
        async with self._order:
            await self._apply(self._blocks.take(update))
        self._taken.set()

    async def finish(self) -> None:
        """Tell that the turn is over."""
        for asking in tuple(self._asking):
            asking.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        async with self._order:
            await self._apply(self._blocks.finish())

    def _asked(self, asking: asyncio.Task[None]) -> None:
        self._asking.discard(asking)
        if not asking.cancelled() and (error := asking.exception()) is not None:
            self._failure = error
            self._said.wake()

    async def _ask(self, question: Question) -> None:
        approved = False
        try:
            approved = await self._decide(question)
        finally:
            # Whatever happens, the agent does not wait for ever.
            cancelled = asyncio.current_task().cancelling()  # type: ignore[union-attr]
            question.settle(
                called_off() if cancelled else answer(question.options, approved=approved)
            )

    async def _decide(self, question: Question) -> bool:
        await self._take_asked(question)
        call = self._blocks.calls.get(question.tool_call.tool_call_id)
        if call is None:
            return False
        if await self._permitted(call):
            self._approved.add(call.call_id)
            self._writable.update(call.paths)
            return True
        call.denied = True
        text = self._rejected(call)
        if text is not None:
            async with self._order:
                await self._apply(self._blocks.end(call, text))
        return False

    async def _take_asked(self, question: Question) -> None:
        """Take what a question tells of its call, or wait until the call itself is told."""
        if not self._naming.question_tells:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_INPUT_PATIENCE):
                    while not self._is_told(question.tool_call.tool_call_id):
                        self._taken.clear()
                        await self._taken.wait()
                return
        async with self._order:
            await self._apply(self._blocks.call(question.tool_call))

    def _is_told(self, call_id: str) -> bool:
        call = self._blocks.calls.get(call_id)
        return call is not None and call.status == "in_progress"

    async def _permitted(self, call: Call) -> bool:
        block = self._open[call.call_id]
        if self._turn.params.permission_mode == "plan" and not changes_nothing(call):
            await block.update("denied", reason=PLANNING)
            return False
        if not self._turn.params.tools and self._needs_no_word(call):
            return True
        name, tool_input = self._naming.name(call), self._naming.input(call)
        decision = await self._turn.permit(block, name, tool_input, call.call_id)
        if decision.updated_input is not None and decision.updated_input != tool_input:
            await block.update("denied", reason=_CHANGED_INPUT)
            return False
        return decision.approved

    async def _apply(self, steps: Iterable[Step]) -> None:
        for step in steps:
            await self._step(step)

    async def _step(self, step: Step) -> None:
        match step:
            case Start(key, kind, members):
                self._open[key] = await self._turn.start_block(kind, **members)
                self._names[key] = members.get("tool_name", "")
            case Add(key, text):
                await self._open[key].add(text)
            case Change(key, status, tool_input):
                if status == "completed":
                    self._check_allowed(key)
                await self._open[key].update(status, tool_input=tool_input)
            case End(key, is_error):
                await self._open.pop(key).complete(is_error=is_error)
                del self._names[key]

    def _check_allowed(self, key: str) -> None:
        """Fail if a tool was used that this prompt may not use, and that nobody was asked about."""
        allowed = self._turn.params.tools
        if allowed and key not in self._approved and self._names[key] not in allowed:
            raise AgentFailed(
                f"the agent used {self._names[key]} without asking; "
                f"this prompt may use only: {', '.join(allowed)}",
                hint="Allow the tool, or choose an agent that can be kept from using it.",
            )

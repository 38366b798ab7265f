"""An agent that is driven over ACP. What differs from agent to agent is in its subclasses."""

from __future__ import annotations

import asyncio
import contextlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from agor.agents.acp.blocks import Naming
from agor.agents.acp.calls import Call
from agor.agents.acp.launch import Launch
from agor.agents.acp.session import Session
from agor.agents.acp.telling import Telling
from agor.agents.base import Agent
from agor.agents.modes import ACP_WORDS
from agor.agents.turn import Turn
from agor.errors import AgentFailed, ContextFull, NoSuchModel
from agor.protocol.events import Log, MetadataUpdate, TokenUsage
from agor.protocol.methods import PermissionMode

if TYPE_CHECKING:
    from acp.schema import PromptResponse, ToolCallUpdate

#: Seconds for an agent to end its turn once it is told to, before its program is ended.
_CANCEL_GRACE = 2.0


class AcpAgent(Agent):
    """One conversation with an agent that speaks ACP."""

    #: How its tool calls are told.
    naming: ClassVar[Naming] = Naming()
    #: Its words for each mode, the one to be preferred first.
    modes: ClassVar[Mapping[PermissionMode, Sequence[str]]] = ACP_WORDS
    #: Whether it writes files itself, and asks us to do it nevertheless.
    shows_writes: ClassVar[bool] = False

    def __init__(self) -> None:
        self._session: Session | None = None

    @classmethod
    def import_ahead(cls) -> None:
        """Import the ACP package, with all its models."""
        import_module("acp")

    # ── what a subclass says ─────────────────────────────────────────────────────────────────

    @abstractmethod
    async def launch(self, turn: Turn) -> Launch:
        """Say how the program is started for this turn; keys are fetched here, every time."""

    def wanted_model(self, turn: Turn) -> str | None:
        """Tell the model of a turn; none if that is left to the agent."""
        return turn.params.model

    def needs_no_word(self, session: Session, call: Call) -> bool:  # noqa: ARG002 - for subclasses
        """Tell whether a call may run though the agent asks: what other agents do not ask about."""
        return False

    async def choose_model(self, session: Session, model: str) -> None:
        """Choose the model of a session; not needed if the command did that."""
        if not await session.options.choose("model", model, session.ask):
            raise AgentFailed(
                f"{session.launch.name} lets nobody choose its model",
                hint="Leave the model out, or name it in the command.",
            )

    def rejected(self, call: Call) -> str | None:  # noqa: ARG002 - for subclasses
        """Tell what the model is told after a no, if the agent does not tell us."""
        return None

    async def complete(self, update: ToolCallUpdate) -> None:
        """Put into the last update of a tool call what the agent does not tell."""

    def usage(self, response: PromptResponse) -> TokenUsage:
        """Tell how many tokens the turn took."""
        used = response.usage
        if used is None:
            return TokenUsage()
        return TokenUsage(
            input=used.input_tokens,
            output=used.output_tokens,
            cache_read=used.cached_read_tokens or 0,
            cache_write=used.cached_write_tokens or 0,
        )

    def cost(self, session: Session, told: float | None) -> float | None:
        """Tell what the turn has cost, from what the agent says that the conversation has."""
        before, session.cost = session.cost, session.cost if told is None else told
        return None if before is None or told is None else max(0.0, told - before)

    async def opening(
        self,
        launch: Launch,  # noqa: ARG002 - for agents that look into their records
        resume: str | None,
    ) -> str | None:
        """Do what is needed before the program is started.

        Gives the conversation to go on with; none if there is nothing in it to go on with.
        """
        return resume

    async def loaded(self, session: Session) -> None:
        """Do what is needed after an earlier conversation was taken up."""

    async def prompt(self, session: Session, turn: Turn) -> PromptResponse:
        """Send the turn's prompt, and wait for the end of the turn."""
        return await session.prompt(turn.params.prompt)

    # ── a turn ───────────────────────────────────────────────────────────────────────────────

    async def run(self, turn: Turn) -> None:
        """Work on a prompt, in the program that runs already if it fits."""
        launch = await self.launch(turn)
        try:
            session = await self._fitting(launch, turn)
            await self._choose(session, turn)
            await self._converse(session, turn)
        except asyncio.CancelledError:
            await asyncio.shield(self.close())
            raise

    async def close(self) -> None:
        """End the program."""
        await self._end()

    async def _end(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _fitting(self, launch: Launch, turn: Turn) -> Session:
        session = self._session
        if session is None or session.launch != launch or session.program.exited:
            await self._end()
            resume = turn.params.resume if session is None else session.session_id
            resume = await self.opening(launch, resume)
            session = self._session = await Session.open(launch, resume)
            if resume is not None:
                await self.loaded(session)
        turn.agent_session_id = session.session_id
        session.client.writable.clear()
        session.client.shows_writes = self.shows_writes
        return session

    async def _choose(self, session: Session, turn: Turn) -> None:
        mode, model = turn.params.permission_mode, self.wanted_model(turn)
        if not await session.options.choose_mode(self.modes[mode], session.ask) and mode == "plan":
            words = "it has no mode that agor knows; what it asks to change is denied"
            await turn.tell(Log("warning", f"{session.launch.name}: {words}"))
        if model is not None:
            try:
                await self.choose_model(session, model)
            except NoSuchModel:
                raise
            except AgentFailed as error:
                raise NoSuchModel(error.message, hint=error.hint) from error
        # What was said between two turns, or about these choices, belongs to neither.
        session.pass_over_all()
        await turn.tell(MetadataUpdate(model=model, agent_session_id=session.session_id))

    async def _converse(self, session: Session, turn: Turn) -> None:
        telling = Telling(
            turn,
            session.session_id,
            self.naming,
            said=session.said,
            writable=session.client.writable,
            rejected=self.rejected,
            complete=self.complete,
            needs_no_word=partial(self.needs_no_word, session),
        )
        answer = asyncio.create_task(self.prompt(session, turn))
        try:
            response = await telling.tell_until(answer)
            await telling.finish()
        except asyncio.CancelledError:
            await self._cancel(session, telling, answer)
            raise
        except Exception:
            with contextlib.suppress(Exception):
                await telling.finish()
                turn.over = session.answered
            raise
        finally:
            answer.cancel()
        await self._conclude(session, turn, telling, response)

    async def _conclude(
        self, session: Session, turn: Turn, telling: Telling, response: PromptResponse
    ) -> None:
        turn.usage = self.usage(response)
        turn.cost = self.cost(session, telling.cost)
        await turn.tell(MetadataUpdate(usage=turn.usage, cost=turn.cost))
        turn.over = True
        match response.stop_reason:
            case "max_tokens":
                raise ContextFull("the model could not answer within its limit of tokens")
            case "refusal":
                raise AgentFailed("the model refused to answer")
            case "max_turn_requests":
                raise AgentFailed("the agent gave up: it asked the model too often in one turn")
            case "cancelled":
                raise AgentFailed("the agent ended the turn before it was done")

    async def _cancel(self, session: Session, telling: Telling, answer: asyncio.Task[Any]) -> None:
        """Let the agent end its turn, and what that started; its program is ended after it."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_CANCEL_GRACE):
                await session.cancel()
                await telling.finish()
                # What it says now comes too late to be told; but it must be read.
                while not answer.done():
                    session.pass_over_all()
                    await session.said.news()

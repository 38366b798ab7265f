"""A running ACP agent and the one session that is open in it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Self, TypeVar

from agor.agents.acp.client import Client
from agor.agents.acp.failures import refusal, told
from agor.agents.acp.launch import Launch, acp_servers
from agor.agents.acp.options import Options
from agor.agents.acp.permissions import called_off
from agor.agents.acp.said import Question
from agor.agents.acp.transport import Transport
from agor.agents.environment import program_environment
from agor.agents.handing import handed_files
from agor.agents.programs import Program
from agor.errors import AgentFailed, NoTranscript

if TYPE_CHECKING:
    from acp import ClientSideConnection
    from acp.schema import (
        InitializeResponse,
        LoadSessionResponse,
        PromptResponse,
        SessionNotification,
    )

T = TypeVar("T")

#: The updates that tell a conversation.
REPLAYED = frozenset(
    ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call")
)  # fmt: skip

_LONGEST_ID = 256


class Session:
    """One program, one connection, one session."""

    def __init__(self, launch: Launch, program: Program) -> None:
        from acp import connect_to_agent

        self.launch = launch
        self.program = program
        self._transport = Transport(program.stdout, program.stdin)
        self.said = self._transport.said
        self.client = Client(self.said)
        client: Any = self.client
        self.connection: ClientSideConnection = connect_to_agent(client, self._transport)
        self.about: InitializeResponse
        self.session_id = ""
        self.options: Options
        #: How many pieces of a conversation were passed over, as a replay has them.
        self._passed_over = 0
        #: What the conversation has cost before this turn; none if it is not known.
        self.cost: float | None = None
        #: Whether the last prompt was answered, if only with a refusal: then its turn is over.
        self.answered = False

    @classmethod
    async def open(cls, launch: Launch, resume: str | None) -> Self:
        """Start the program, and a session in it: a new one, or one that it knows from before."""
        session = await cls.connect(launch)
        try:
            await (session.begin() if resume is None else session.resume(resume))
        except BaseException:
            await asyncio.shield(session.close())
            raise
        return session

    @classmethod
    async def connect(cls, launch: Launch) -> Self:
        """Start the program, and greet it."""
        with handed_files(launch.secrets) as files:
            program = await Program.start(
                launch.command,
                cwd=launch.cwd,
                env=program_environment(launch.environment | files.paths),
                name=launch.name,
                descriptors=files.descriptors,
            )
        session = cls(launch, program)
        try:
            await session.initialize()
        except BaseException:
            await asyncio.shield(session.close())
            raise
        return session

    async def ask(self, request: Awaitable[T], *, in_time: bool = True) -> T:
        """Wait for an answer; whatever goes wrong becomes an error of ours."""
        from acp import RequestError

        try:
            return await self._answer(request, in_time=in_time)
        except RequestError as error:
            raise refusal(error, self.launch.name, self.launch.credential) from None

    async def _answer(self, request: Awaitable[T], *, in_time: bool = True) -> T:
        """Wait for an answer; only what the agent refuses is left as it is."""
        from pydantic import ValidationError

        seconds = self.launch.patience if in_time else None
        try:
            async with asyncio.timeout(seconds):
                return await request
        except TimeoutError:
            raise AgentFailed(f"{self.launch.name} did not answer within {seconds:g} s") from None
        except ConnectionError:
            raise await self._gone() from None
        except (ValidationError, TypeError) as error:
            raise AgentFailed(
                f"{self.launch.name} answers with what is not of the Agent Client Protocol"
            ) from error

    async def prompt(self, text: str) -> PromptResponse:
        """Send a prompt, and wait for the end of the turn."""
        from acp import RequestError, text_block

        self.answered = False
        request = self.connection.prompt(session_id=self.session_id, prompt=[text_block(text)])
        try:
            response: PromptResponse = await self._answer(request, in_time=False)
        except RequestError as error:
            self.answered = True
            raise refusal(error, self.launch.name, self.launch.credential) from None
        self.answered = True
        return response

    async def cancel(self) -> None:
        """Tell the agent to end its turn."""
        await self.connection.cancel(session_id=self.session_id)

    def pass_over(self, said: SessionNotification | Question) -> None:
        """Leave something out that belongs to no turn of ours."""
        if isinstance(said, Question):
            said.settle(called_off())
        elif said.update.session_update in REPLAYED:
            self._passed_over += 1
        elif said.update.session_update == "usage_update" and said.update.cost is not None:
            self.cost = said.update.cost.amount

    def pass_over_all(self) -> None:
        """Leave out what was said so far."""
        while (said := self.said.next()) is not None:
            self.pass_over(said)

    async def pass_over_until(self, count: int, seconds: float) -> None:
        """Leave out a replay of so many pieces, for so long at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                self.pass_over_all()
                while self._passed_over < count and not self.program.exited:
                    await self.said.news()
                    self.pass_over_all()

    async def close(self) -> None:
        """End the program, and all that it started."""
        try:
            await self.program.stop()
        finally:
            await self.connection.close()

    # ── the beginning ────────────────────────────────────────────────────────────────────────

    async def initialize(self) -> None:
        """Greet the agent, and learn what it can do."""
        from acp import PROTOCOL_VERSION
        from acp.schema import ClientCapabilities, Implementation

        import agor

        self.about = await self.ask(
            self.connection.initialize(
                protocol_version=PROTOCOL_VERSION,
                client_capabilities=ClientCapabilities(),
                client_info=Implementation(name="agor", title="agor", version=agor.__version__),
            )
        )
        version = self.about.protocol_version
        if version != PROTOCOL_VERSION:
            raise AgentFailed(
                f"{self.launch.name} speaks version {version} of the Agent Client Protocol, "
                f"and we speak version {PROTOCOL_VERSION}"
            )

    async def begin(self) -> None:
        """Begin a conversation."""
        request = self.connection.new_session(cwd=self.launch.cwd, mcp_servers=self._servers())
        answer = await self.ask(request)
        self.session_id = answer.session_id
        if not 0 < len(self.session_id) <= _LONGEST_ID or "\0" in self.session_id:
            raise AgentFailed(f"{self.launch.name} gave its session a name that cannot be used")
        self.options = Options(self.connection, self.session_id, answer)
        # A new conversation has cost nothing yet.
        self.cost = 0.0

    async def resume(self, session_id: str) -> None:
        """Go on with an earlier conversation."""
        replaying = asyncio.create_task(self._pass_over_replay())
        try:
            able = self.about.agent_capabilities
            if able and able.session_capabilities and able.session_capabilities.resume is not None:
                request = self.connection.resume_session(**self._place(session_id))
                answer = await self._known(request)
            elif able and able.load_session:
                answer = await self.load(session_id)
            else:
                raise AgentFailed(
                    f"{self.launch.name} cannot go on with a conversation once its program ended",
                    hint="Begin another session.",
                )
        finally:
            replaying.cancel()
        self.session_id = session_id
        self.options = Options(self.connection, session_id, answer)
        self.pass_over_all()

    async def load(self, session_id: str) -> LoadSessionResponse:
        """Have an earlier conversation loaded; the agent replays it meanwhile."""
        return await self._known(self.connection.load_session(**self._place(session_id)))

    async def _known(self, request: Awaitable[T]) -> T:
        """Wait for a conversation to be taken up; refused, there is no such conversation."""
        from acp import RequestError

        try:
            return await self._answer(request)
        except RequestError as error:
            raise NoTranscript(
                f"{self.launch.name} does not go on with this conversation: {told(error)}",
                hint="Begin another session.",
            ) from None

    def _place(self, session_id: str) -> dict[str, Any]:
        return {
            "cwd": self.launch.cwd,
            "session_id": session_id,
            "mcp_servers": self._servers(),
        }

    async def _pass_over_replay(self) -> None:
        while True:
            await self.said.news()
            self.pass_over_all()

    async def _gone(self) -> AgentFailed:
        if self._transport.problem is not None:
            return AgentFailed(f"{self.launch.name} {self._transport.problem}")
        return await self.program.ended()

    def _servers(self) -> list[Any]:
        able = self.about.agent_capabilities
        mcp = able.mcp_capabilities if able else None
        return acp_servers(
            self.launch.mcp_servers,
            name=self.launch.name,
            http=bool(mcp and mcp.http),
            sse=bool(mcp and mcp.sse),
        )

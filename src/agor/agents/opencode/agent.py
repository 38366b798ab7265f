"""Runs turns of OpenCode."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec

from agor.agents.acp.agent import AcpAgent
from agor.agents.acp.blocks import Naming
from agor.agents.acp.calls import Call
from agor.agents.acp.launch import Launch
from agor.agents.acp.session import Session
from agor.agents.environment import find_program, need_program
from agor.agents.modes import NATIVE
from agor.agents.opencode import calls, models, storage
from agor.agents.opencode.config import KEY_FILE, VARIABLES, config_content
from agor.agents.opencode.faults import Faults, recorded_fault
from agor.agents.opencode.told import guarded
from agor.agents.opencode.transcripts import OpenCodeTranscripts
from agor.agents.transcripts import Transcripts
from agor.agents.turn import Turn
from agor.errors import AgentEnded, AgorError, NoTranscript
from agor.protocol.events import TokenUsage
from agor.protocol.methods import AgentInfo, PermissionMode

if TYPE_CHECKING:
    from acp.schema import PromptResponse, ToolCallUpdate


class OpenCodeAgent(AcpAgent):
    """One conversation with OpenCode."""

    name: ClassVar[str] = "opencode"
    transcripts: ClassVar[Transcripts | None] = OpenCodeTranscripts()
    naming: ClassVar[Naming] = calls.NAMING
    modes: ClassVar[Mapping[PermissionMode, Sequence[str]]] = {
        mode: (word,) for mode, word in NATIVE["opencode"].items() if word is not None
    }
    shows_writes: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        #: Of the port that OpenCode opens.
        self._password = secrets.token_urlsafe(32)
        self._model: models.Model | None = None
        #: Models that OpenCode was told of, by provider: it may not have known them.
        self._declared: dict[str, set[str]] = {}
        #: What the turn took; none if that is not known.
        self._spent: storage.Spent | None = None

    @classmethod
    def describe(cls) -> AgentInfo:
        """Tell whether its program is here."""
        if find_program("opencode") is None:
            why = "not installed; `agor agent install opencode` does it"
            return AgentInfo(name=cls.name, available=False, why_not=why)
        return AgentInfo(name=cls.name, available=True, version=_version())

    async def launch(self, turn: Turn) -> Launch:
        """Find out whose model it is, and start the program with that key."""
        asked = turn.params.model
        if asked is None:
            key = await turn.fetch_key(*models.DEFAULTS)
            model = models.parse(models.DEFAULTS[key.credential_key or "ANTHROPIC_API_KEY"])
        else:
            model = models.parse(asked)
            key = await turn.fetch_key(model.credential)
        self._model = model
        declared = self._declare(model)
        content = config_content(
            model.provider,
            key.base_url,
            declared,
            default=f"{model.provider}/{min(declared)}",
            cwd=turn.params.cwd,
        )
        return Launch(
            name="OpenCode",
            command=(
                str(need_program("opencode", self.name)), "acp",
                "--print-logs", "--log-level", "ERROR",
            ),
            environment=VARIABLES
            | {"OPENCODE_CONFIG_CONTENT": content, "OPENCODE_SERVER_PASSWORD": self._password},
            secrets={KEY_FILE: key.api_key},
            cwd=turn.params.cwd,
            mcp_servers=await turn.mcp_servers(),
            credential=key.credential_key or model.credential,
        )  # fmt: skip

    def _declare(self, model: models.Model) -> set[str]:
        """Have OpenCode know the model; one that the running program offers needs no restart."""
        declared = self._declared.setdefault(model.provider, set())
        running = self._session
        if running is None or not running.options.offers("model", model.full_name):
            declared.add(model.name)
        return declared

    def wanted_model(self, turn: Turn) -> str | None:
        """Tell the model of the turn, which was decided with its key."""
        del turn
        return None if self._model is None else self._model.full_name

    async def choose_model(self, session: Session, model: str) -> None:
        """Choose the model, and leave to it how long it thinks: ACP would take the first choice."""
        await super().choose_model(session, model)
        await session.options.choose("thought_level", "default", session.ask)

    def needs_no_word(self, session: Session, call: Call) -> bool:
        """Let it look at the workspace without asking; OpenCode itself asks about everything."""
        return calls.needs_no_word(call, session.launch.cwd)

    async def prompt(self, session: Session, turn: Turn) -> PromptResponse:
        """Send the prompt; end the turn if the provider refuses for good."""
        before = await _spent(session)
        faults = Faults(session.session_id, session.launch.credential, lambda: session.said.count)
        session.program.heard = faults.hear
        sent = asyncio.create_task(session.prompt(guarded(turn.params.prompt)))
        given_up = asyncio.create_task(faults.give_up(turn.tell))
        try:
            await asyncio.wait((sent, given_up), return_when=asyncio.FIRST_COMPLETED)
            if not sent.done():
                raise given_up.result()
            response = await self._explained(session, sent)
        finally:
            session.program.heard = None
            sent.cancel()
            given_up.cancel()
            # What it took counts, whatever became of it.
            after = await _spent(session)
            self._spent = after.since(before) if after and before else None
            if self._spent is not None:
                turn.usage, turn.cost = self._spent.usage, self._spent.cost or None
        return response

    async def _explained(
        self, session: Session, sent: asyncio.Task[PromptResponse]
    ) -> PromptResponse:
        """Give the answer; the record knows more than the answer does about what went wrong."""
        try:
            return await sent
        except AgentEnded:
            raise
        except AgorError as error:
            recorded = None
            with contextlib.suppress(NoTranscript):
                recorded = await asyncio.to_thread(storage.last_error, session.session_id)
            fault = recorded_fault(recorded, session.launch.credential)
            raise fault or error from None

    async def complete(self, update: ToolCallUpdate) -> None:
        """Tell a call of a tool that is none as what it is; to OpenCode it is a tool as well."""
        if update.title == calls.NO_TOOL:
            update.status = "failed"

    def usage(self, response: PromptResponse) -> TokenUsage:
        """Tell the tokens of the whole turn; the answer has those of its last step."""
        return super().usage(response) if self._spent is None else self._spent.usage

    def cost(self, session: Session, told: float | None) -> float | None:
        """Tell the cost of the turn, sub-agents included; without a price there is none."""
        if self._spent is None:
            return super().cost(session, told)
        return self._spent.cost or None


async def _spent(session: Session) -> storage.Spent | None:
    with contextlib.suppress(NoTranscript):
        return await asyncio.to_thread(storage.spent, session.session_id)
    return None


def _version() -> str | None:
    program = find_program("opencode")
    if program is None:
        return None
    with contextlib.suppress(OSError, msgspec.DecodeError, KeyError, TypeError, IndexError):
        package = program.resolve().parents[1] / "package.json"
        return str(msgspec.json.decode(package.read_bytes())["version"])
    return None

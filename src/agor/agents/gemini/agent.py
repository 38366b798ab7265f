"""Gemini CLI (`gemini --acp`)."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from agor.agents.acp.agent import AcpAgent
from agor.agents.acp.calls import Call
from agor.agents.acp.launch import Launch
from agor.agents.acp.session import Session
from agor.agents.environment import find_program, need_program
from agor.agents.gemini import calls
from agor.agents.gemini.home import VARIABLE as HOME_VARIABLE
from agor.agents.gemini.home import check_workspace, make_home, write_policy
from agor.agents.gemini.records import (
    Following,
    GeminiRecords,
    make_loadable,
    may_be_loaded,
    replayed_updates,
)
from agor.agents.gemini.retries import MOST_ATTEMPTS, Attempt, RetryLog
from agor.agents.gemini.retries import VARIABLE as LOG_VARIABLE
from agor.agents.scratch import ScratchFolder
from agor.agents.turn import Turn
from agor.protocol.events import Log, TokenUsage
from agor.protocol.methods import AgentInfo

if TYPE_CHECKING:
    from acp.schema import PromptResponse, ToolCallUpdate

KEY = "GEMINI_API_KEY"
_GOOGLE = "https://generativelanguage.googleapis.com"
#: No server has this name: theirs have no blank.
_NO_SERVER = "no server"
#: Seconds that a replay may go on after a conversation was loaded.
_REPLAY_PATIENCE = 10.0
#: Failed attempts that wait to be told.
_MOST_WAITING = 16


class GeminiAgent(AcpAgent):
    """One conversation with Gemini CLI."""

    name = "gemini"
    transcripts = GeminiRecords()
    naming = calls.NAMING

    def __init__(self) -> None:
        super().__init__()
        #: For what the program reads and writes beside its streams; nothing in it is secret.
        self._folder: ScratchFolder | None = None
        self._log: RetryLog | None = None
        self._attempts: asyncio.Queue[Attempt] = asyncio.Queue(_MOST_WAITING)
        self._following: Following | None = None

    @classmethod
    def describe(cls) -> AgentInfo:
        """Tell whether its program is here."""
        program = find_program("gemini")
        if program is None:
            why_not = "no program 'gemini' here: `agor agent install gemini`"
            return AgentInfo(name=cls.name, available=False, why_not=why_not)
        return AgentInfo(name=cls.name, available=True, version=_version(program))

    async def launch(self, turn: Turn) -> Launch:
        """Start it with the key, the model and settings of this turn."""
        key = await turn.fetch_key(KEY, "GOOGLE_API_KEY")
        program = need_program("gemini", self.name)
        params = turn.params
        check_workspace(params.cwd)
        folder = self._own_folder()
        servers = await turn.mcp_servers()
        environment = {
            KEY: key.api_key,
            HOME_VARIABLE: str(make_home(folder, params.tools)),
            LOG_VARIABLE: str(folder / RetryLog.NAME),
            # Without it, it refuses to start in a folder that it was never asked about.
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            # It would start itself a second time, to have more memory.
            "GEMINI_CLI_NO_RELAUNCH": "true",
            "NO_BROWSER": "true",
            # Set in any case: a repository's .env must not say where the key is sent.
            "GOOGLE_GEMINI_BASE_URL": key.base_url or _GOOGLE,
        }
        options = ["--admin-policy", str(write_policy(folder))]
        # Servers that settings name are not started; where there is none of ours, none is.
        for name in servers or (_NO_SERVER,):
            options += ["--allowed-mcp-server-names", name]
        if params.model is not None:
            options += ["-m", params.model]
        return Launch(
            name="Gemini CLI",
            command=(str(program), "--acp", *options),
            environment=environment,
            cwd=params.cwd,
            mcp_servers=servers,
            credential=key.credential_key or KEY,
        )

    async def choose_model(self, session: Session, model: str) -> None:
        """Nothing is left to do: the command names it."""

    async def opening(self, launch: Launch, resume: str | None) -> str | None:
        """See to it that a conversation can be loaded that is not a minute old.

        One in which nothing was ever answered cannot be, and is begun anew.
        """
        if resume is None or not await asyncio.to_thread(may_be_loaded, resume, launch.cwd):
            return None
        await asyncio.to_thread(make_loadable, resume, launch.cwd)
        return resume

    async def loaded(self, session: Session) -> None:
        """Wait for the end of the replay, which goes on after it said that all is loaded."""
        count = await asyncio.to_thread(replayed_updates, session.session_id, session.launch.cwd)
        await session.pass_over_until(count, _REPLAY_PATIENCE)

    async def prompt(self, session: Session, turn: Turn) -> PromptResponse:
        """Send the prompt, and give up where Gemini CLI would go on trying for minutes."""
        place = (session.session_id, session.launch.cwd)
        self._following = await asyncio.to_thread(Following, *place)
        self._attempts = asyncio.Queue(_MOST_WAITING)
        answer = asyncio.create_task(super().prompt(session, turn))
        trying = asyncio.create_task(self._watch_attempts(turn, session.launch.credential))
        try:
            await asyncio.wait((answer, trying), return_when=asyncio.FIRST_COMPLETED)
            return answer.result() if answer.done() else trying.result()
        finally:
            answer.cancel()
            trying.cancel()

    async def _watch_attempts(self, turn: Turn, credential: str) -> NoReturn:
        """Tell of each attempt that failed; after too many, raise why."""
        while True:
            attempt = await self._attempts.get()
            error = attempt.error(credential)
            if attempt.number >= MOST_ATTEMPTS:
                raise error
            await turn.tell(Log("warning", f"{error.message}; Gemini CLI tries again"))

    async def complete(self, update: ToolCallUpdate) -> None:
        """Put in what only the record tells: the input, and what the model got."""
        if self._following is not None:
            found = await self._following.wait_for(update.tool_call_id)
            if found is not None:
                update.raw_input, update.raw_output = found

    def rejected(self, call: Call) -> str:
        """Tell what the model is told: nothing comes over ACP after a no."""
        return calls.denied_text(calls.tool_name(call))

    def usage(self, response: PromptResponse) -> TokenUsage:
        """Read the usage from where it is."""
        quota: Any = (response.field_meta or {}).get("quota")
        counts = quota.get("token_count") if isinstance(quota, dict) else None
        if not isinstance(counts, dict):
            return super().usage(response)
        return TokenUsage(
            input=_count(counts, "input_tokens"), output=_count(counts, "output_tokens")
        )

    async def close(self) -> None:
        """End the program, and remove its folder."""
        await super().close()
        if self._log is not None:
            self._log.close()
            self._log = None
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    def _own_folder(self) -> Path:
        if self._folder is None:
            self._folder = ScratchFolder(self.name)
            self._log = RetryLog(self._folder.path, self._failed)
        return self._folder.path

    def _failed(self, attempt: Attempt) -> None:
        # There are a few of them in a minute; were there more, some would do.
        with contextlib.suppress(asyncio.QueueFull):
            self._attempts.put_nowait(attempt)


def _count(counts: dict[str, Any], name: str) -> int:
    value = counts.get(name)
    return value if isinstance(value, int) and 0 <= value < 2**53 else 0


def _version(program: Path) -> str | None:
    """Read the version of the program, if it was installed with npm."""
    try:
        package = msgspec.json.decode((program.resolve().parents[1] / "package.json").read_bytes())
        return str(package["version"])
    except (OSError, msgspec.DecodeError, KeyError, TypeError):
        return None

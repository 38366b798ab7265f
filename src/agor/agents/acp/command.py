"""`acp:<command>`: any agent that speaks ACP, by the command that starts it.

    acp:ANTHROPIC_API_KEY=${ANTHROPIC_API_KEY} claude-agent-acp

The command is split as a shell would, and no shell runs it. Assignments in front of it are its
environment. `${NAME}` in them is a credential, and `${NAME.base_url}` the address that is kept with
it; they are fetched when the agent starts. It gets no other.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

import msgspec
from msgspec import Struct

from agor.agents.acp.agent import AcpAgent
from agor.agents.acp.blocks import Naming
from agor.agents.acp.launch import Launch
from agor.agents.acp.replay import Replay
from agor.agents.environment import find_program
from agor.agents.modes import ACP_WORDS
from agor.agents.turn import Turn
from agor.errors import AgentMissing, InvalidParams
from agor.protocol.methods import AgentInfo, GetApiKeyResult, PermissionMode

PREFIX = "acp:"
_ASSIGNMENT = re.compile(r"^(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)$", re.DOTALL)
_REFERENCE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]{0,127})(?P<address>\.base_url)?\}")


class Command(Struct, frozen=True):
    """A command and the environment that it names, without the credentials."""

    words: tuple[str, ...]
    assignments: dict[str, str]

    @property
    def credentials(self) -> list[str]:
        """The names of the credentials that it names."""
        values = self.assignments.values()
        return [found["name"] for value in values for found in _REFERENCE.finditer(value)]

    @property
    def program(self) -> str:
        """What people call it: its program, without the folder."""
        return self.words[0].rpartition("/")[2] or self.words[0]

    def environment(self, keys: Mapping[str, GetApiKeyResult]) -> dict[str, str]:
        """Put credentials in; what names one that is not there is left out."""

        def put(found: re.Match[str]) -> str:
            key = keys.get(found["name"])
            value = None if key is None else key.base_url if found["address"] else key.api_key
            return value or ""

        filled = {name: _REFERENCE.sub(put, value) for name, value in self.assignments.items()}
        return {
            name: value for name, value in filled.items() if value or not self.assignments[name]
        }

    def launch(self, cwd: str, keys: Mapping[str, GetApiKeyResult] = {}) -> Launch:
        """Say how it is started with these credentials."""
        program = find_program(self.words[0])
        if program is None:
            raise AgentMissing(
                f"there is no program {self.words[0]!r} here",
                hint="Install it, or name it with its folder: acp:/opt/bin/agent.",
            )
        return Launch(
            name=self.program,
            command=(str(program), *self.words[1:]),
            environment=self.environment(keys),
            cwd=cwd,
            mcp_servers={},
            credential=next(iter(self.credentials), "NAME"),
        )


def parse(name: str) -> Command:
    """Read the name of an agent: `acp:`, assignments, a command."""
    try:
        words = shlex.split(name.removeprefix(PREFIX))
    except ValueError as error:
        raise InvalidParams(f"params.agentic_tool: {error}") from None
    assignments: dict[str, str] = {}
    while words and (found := _ASSIGNMENT.match(words[0])):
        assignments[found["name"]] = found["value"]
        del words[0]
    if not words or "\0" in name:
        raise InvalidParams(
            "params.agentic_tool: acp: needs a command",
            hint="For instance: acp:OPENAI_API_KEY=${OPENAI_API_KEY} codex-acp.",
        )
    return Command(tuple(words), assignments)


class CommandAgent(AcpAgent):
    """Any agent that speaks ACP; each command has a subclass of its own.

    In `plan` it gets the mode in which it asks, never a plan mode of its own: claude-agent-acp,
    unless it runs as root, writes files unasked in that. What it then asks to change is refused.
    """

    modes: ClassVar[Mapping[PermissionMode, Sequence[str]]] = {
        **ACP_WORDS,
        "plan": ACP_WORDS["default"],
    }
    command: Command

    @classmethod
    def describe(cls) -> AgentInfo:
        """Tell whether there is such a program."""
        program = cls.command.words[0]
        if find_program(program) is None:
            return AgentInfo(name=cls.name, available=False, why_not=f"no program {program!r} here")
        return AgentInfo(name=cls.name, available=True)

    async def launch(self, turn: Turn) -> Launch:
        """Find the program, and fetch the credentials that the command names."""
        names = sorted(set(self.command.credentials))
        keys = {name: await turn.fetch_key(name) for name in names}
        launch = self.command.launch(turn.params.cwd, keys)
        return msgspec.structs.replace(launch, mcp_servers=await turn.mcp_servers())


@lru_cache(maxsize=64)
def command_agent(name: str) -> type[CommandAgent]:
    """Make the agent of an `acp:` name; raises `InvalidParams` if it has no command."""
    command = parse(name)
    members = {
        "name": name,
        "command": command,
        "transcripts": Replay(command.launch, Naming()),
        "__doc__": f"The agent {name}.",
    }
    return type("CommandAgent", (CommandAgent,), members)

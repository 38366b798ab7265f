"""How Claude Code is started: its command, its environment, and what is handed to it.

Which settings count. The `.claude/settings.json` of a project or a user may allow tools, run hooks
and set variables such as the address that keys are sent to. Whoever may change files of a
repository would decide what runs without a question, so none of these files is read
(`--setting-sources=`). What a project says to the model, its CLAUDE.md, is no such thing: it is
read because the workspace is named as an additional folder, whose CLAUDE.md counts. A user's own
CLAUDE.md is added to what the model is told.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from agor.agents.environment import program_environment
from agor.agents.handing import Handed
from agor.agents.programs import Program
from agor.protocol.mcp import McpServer

#: The credentials it can do with.
API_KEY, AUTH_TOKEN = "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"
#: What people call it.
NAME = "Claude Code"
#: Tools that nobody is asked about, and that do what is not for an agent to do: go on by itself at
#: some later time, talk to other sessions of the same Unix user, move to another worktree.
_NOT_OFFERED = (
    *("CronCreate", "CronDelete", "CronList", "ScheduleWakeup"),
    *("ListAgents", "SendMessage"),
    *("EnterWorktree", "ExitWorktree"),
)
_VARIABLES = {
    "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
    # Without it, the first word can take seconds where packets are dropped.
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    # Tells when nothing is left to do, sub-agents in the background included.
    "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
    "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD": "1",
}


class Launch(Struct, frozen=True):
    """What a running program cannot be told to change: if it differs, another one is started."""

    program: str
    cwd: str
    #: The key, the name it goes by, and where it is sent; not when it expires, which may be later
    #: each time.
    api_key: str
    credential: str
    base_url: str | None
    servers: dict[str, McpServer]

    def __repr__(self) -> str:
        # It holds keys.
        return f"Launch({self.program}, {self.cwd})"

    async def start(self, talk: Talk) -> Program:
        """Start the program."""
        secrets = self._secrets()
        try:
            program = await Program.start(
                self._command(talk, secrets),
                cwd=self.cwd,
                env=self._environment(secrets),
                name=NAME,
                descriptors=[each.descriptor for each in secrets.values()],
            )
            try:
                for each in secrets.values():
                    await each.pour()
            except BaseException:
                await asyncio.shield(program.stop())
                raise
        finally:
            for each in secrets.values():
                each.close()
        return program

    def _secrets(self) -> dict[str, Handed]:
        """Make what is handed over: the key and the tool servers, which may have keys as well."""
        handed = {}
        if self.credential == API_KEY:
            handed["key"] = Handed(self.api_key.encode())
        if self.servers:
            handed["servers"] = Handed(_mcp_config(self.servers))
        return handed

    def _environment(self, secrets: Mapping[str, Handed]) -> dict[str, str]:
        """Make its environment. A key is not in there, but an authorization token has to be."""
        more = {**_VARIABLES, "PWD": self.cwd}
        if "key" in secrets:
            more["CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR"] = str(secrets["key"].descriptor)
        else:
            more[AUTH_TOKEN] = self.api_key
        if self.base_url is not None:
            more["ANTHROPIC_BASE_URL"] = self.base_url
        return program_environment(more)

    def _command(self, talk: Talk, secrets: Mapping[str, Handed]) -> list[str]:
        """Make its command line."""
        words = [
            self.program,
            *("--output-format", "stream-json", "--input-format", "stream-json", "--verbose"),
            *("--include-partial-messages", "--replay-user-messages"),
            *("--permission-prompt-tool", "stdio", "--permission-mode", talk.mode),
            *("--setting-sources=", "--strict-mcp-config", "--add-dir", self.cwd),
            *("--disallowedTools", ",".join(_NOT_OFFERED)),
            # Bound to their flags: none of these can be taken for a flag itself.
            f"--resume={talk.conversation}"
            if talk.resumed
            else f"--session-id={talk.conversation}",
        ]
        if talk.model is not None:
            words.append(f"--model={talk.model}")
        if "servers" in secrets:
            words += ["--mcp-config", secrets["servers"].path]
        if os.access(memory := Path.home() / ".claude" / "CLAUDE.md", os.R_OK):
            words += ["--append-system-prompt-file", str(memory)]
        return words


class Talk(Struct, frozen=True):
    """What is to be talked about, and how: a running program can be told another model or mode."""

    conversation: str
    resumed: bool
    model: str | None
    #: In Claude's own words.
    mode: str


def _mcp_config(servers: Mapping[str, McpServer]) -> bytes:
    return msgspec.json.encode({"mcpServers": {name: _form(s) for name, s in servers.items()}})


def _form(server: McpServer) -> dict[str, Any]:
    if server.transport == "stdio":
        return {
            "type": "stdio",
            "command": server.command,
            "args": server.args,
            "env": server.env,
        }
    return {"type": server.transport, "url": server.url, "headers": server.headers}

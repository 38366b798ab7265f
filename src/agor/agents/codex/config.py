"""How Codex is started and what it is told to be: its program, its settings, its modes.

The person's own instructions, skills and settings stay in force (see `home`); what agor must decide
is laid over them on the command line. Secrets are neither there nor in any environment, which the
commands that Codex runs could read: they go over its standard input, with the conversation.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from agor.agents.codex.home import ASKING, prepare_home
from agor.agents.environment import find_program, need_program, program_environment
from agor.agents.modes import NATIVE
from agor.errors import AgentFailed
from agor.protocol.mcp import McpServer
from agor.protocol.methods import PermissionMode

#: The provider's name in Codex, which a conversation is bound to: it must never change.
PROVIDER = "agor"
OPENAI = "https://api.openai.com/v1"

#: The package with the program itself, which the one of npm only starts, by kind of machine.
_NATIVE = {
    "x86_64": ("codex-linux-x64", "x86_64-unknown-linux-musl"),
    "aarch64": ("codex-linux-arm64", "aarch64-unknown-linux-musl"),
}
_OVERRIDES = (
    "analytics.enabled=false",
    "check_for_update_on_startup=false",
    "features.plugins=false",
    "features.apps=false",
    # One may answer what people should be asked.
    "features.hooks=false",
    # With a goal it would begin turns by itself, of which no task knows.
    "features.goals=false",
    # What is typed into a running terminal is asked about by nobody.
    "features.unified_exec_tty=false",
)
#: Tools that Codex does not ask about, with the setting that takes each away.
_UNASKED: Mapping[str, tuple[str, object]] = {
    "webSearch": ("web_search", "disabled"),
    "imageView": ("features.view_image", False),
}
#: Asks about everything; what is allowed then runs like anything else of this user.
_ASKING: Mapping[str, Any] = {
    "approvalPolicy": "untrusted",
    "sandboxPolicy": {"type": "dangerFullAccess"},
}
#: Commands run in a sandbox where nothing can be written, and there is no way out of it to ask for.
_READING: Mapping[str, Any] = {
    "approvalPolicy": {
        "granular": {
            "sandbox_approval": False,
            "rules": False,
            "skill_approval": False,
            "request_permissions": False,
            "mcp_elicitations": True,
        }
    },
    "sandboxPolicy": {"type": "readOnly", "networkAccess": False},
}


class Settings(msgspec.Struct, frozen=True):
    """What a running Codex cannot change."""

    api_key: str
    base_url: str
    mcp_servers: dict[str, McpServer]
    #: The only tools that may be used, if there are any.
    tools: list[str]

    def __repr__(self) -> str:
        return f"Settings({self.base_url})"

    def command(self) -> list[str]:
        """Make the command line."""
        provider = (
            f'{{name="{PROVIDER}",base_url={json.dumps(self.base_url)},wire_api="responses",'
            # Its own patience would be 25 tries for one question.
            "request_max_retries=3,stream_max_retries=3}"
        )
        overrides = (
            *_OVERRIDES,
            f'model_provider="{PROVIDER}"',
            f"model_providers.{PROVIDER}={provider}",
        )
        return [
            str(program()),
            "app-server",
            *(word for each in overrides for word in ("-c", each)),
        ]

    def environment(self) -> dict[str, str]:
        """Make the program's environment."""
        environment = program_environment({"CODEX_HOME": str(prepare_home())})
        # Where the program of npm would look for the tools that Codex brings along.
        tools = program().parents[1] / "codex-path"
        if tools.is_dir():
            environment["PATH"] = f"{environment.get('PATH', os.defpath)}:{tools}"
        return environment

    def conversation(self) -> dict[str, Any]:
        """Make the settings of a conversation, which are secret."""
        settings: dict[str, Any] = {
            f"mcp_servers.{name}": _mcp(name, server) for name, server in self.mcp_servers.items()
        }
        settings[f"model_providers.{PROVIDER}.experimental_bearer_token"] = self.api_key
        if self.tools:
            settings |= dict(off for tool, off in _UNASKED.items() if tool not in self.tools)
        return settings


def turn_settings(
    mode: PermissionMode, tools: list[str], model: str, effort: str | None
) -> dict[str, Any]:
    """Tell what a turn may do by itself: it is the prompt's own, not the conversation's."""
    native = NATIVE["codex"][mode]
    # With commands that no prompt allows, even a sandbox must be asked about.
    reading = native == "plan" and (not tools or "commandExecution" in tools)
    collaboration = {"model": model, "reasoning_effort": effort, "developer_instructions": None}
    return {
        **(_READING if reading else _ASKING),
        "approvalsReviewer": "user",
        "collaborationMode": {"mode": native, "settings": collaboration},
    }


def program() -> Path:
    """Find the program that the one of npm starts: without Node it is there sooner."""
    program = need_program("codex", "codex")
    name, target = _NATIVE.get(platform.machine(), ("", ""))
    package = program.resolve().parents[1]
    native = package.parent / name / "vendor" / target / "bin" / "codex"
    return native if name and os.access(native, os.X_OK) else program


def version() -> str | None:
    """Read the version of the program, if it was installed with npm."""
    program = find_program("codex")
    if program is None:
        return None
    try:
        package = msgspec.json.decode((program.resolve().parents[1] / "package.json").read_bytes())
        return str(package["version"])
    except (OSError, msgspec.DecodeError, KeyError, TypeError):
        return None


def _mcp(name: str, server: McpServer) -> dict[str, Any]:
    asking = {"default_tools_approval_mode": ASKING}
    if server.transport == "stdio":
        return {"command": server.command, "args": server.args, "env": server.env} | asking
    if server.transport == "http":
        return {"url": server.url, "http_headers": server.headers} | asking
    raise AgentFailed(
        f"Codex cannot use the MCP server {name}: it does not speak {server.transport}",
        hint="Use the server's http transport.",
    )

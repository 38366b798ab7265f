"""How an ACP agent's program is started, and its tool servers in the protocol's form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from agor.errors import AgentFailed
from agor.protocol.mcp import McpServer

if TYPE_CHECKING:
    from acp.schema import AcpMcpServer, HttpMcpServer, McpServerStdio, SseMcpServer

    Servers = list[HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio]


class Launch(Struct, frozen=True):
    """All that a program was started with; if any of it changes, another must be started."""

    #: What people call it.
    name: str
    command: tuple[str, ...]
    #: What it gets besides the usual; keys are in here.
    environment: dict[str, str]
    cwd: str
    mcp_servers: dict[str, McpServer]
    #: Variables that name a file, each with the text of that file. It is in memory, and handed to
    #: the program alone: the text is in no environment, and what the program starts has no file.
    secrets: dict[str, str] = {}
    #: The key that its provider may refuse, by name.
    credential: str = "NAME"
    #: Seconds for anything that asks no model. What `npx` fetches first takes a while.
    patience: float = 90.0

    def __repr__(self) -> str:
        return f"Launch({self.command[0]!r}, cwd={self.cwd!r})"


def acp_servers(servers: dict[str, McpServer], *, name: str, http: bool, sse: bool) -> Servers:
    """Put tool servers into the protocol's form; the agent must know how to reach them."""
    from acp.schema import EnvVariable, HttpHeader, HttpMcpServer, McpServerStdio, SseMcpServer

    known = {"stdio": True, "http": http, "sse": sse}
    found: Servers = []
    for title, server in servers.items():
        if not known[server.transport]:
            raise AgentFailed(
                f"{name} does not take MCP servers over {server.transport}: {title}",
                hint="Use one that is started by a command.",
            )
        headers = [HttpHeader(name=key, value=value) for key, value in server.headers.items()]
        url = server.url or ""
        match server.transport:
            case "stdio":
                env = [EnvVariable(name=key, value=value) for key, value in server.env.items()]
                command = server.command or ""
                found.append(McpServerStdio(name=title, command=command, args=server.args, env=env))
            case "http":
                found.append(HttpMcpServer(type="http", name=title, url=url, headers=headers))
            case "sse":
                found.append(SseMcpServer(type="sse", name=title, url=url, headers=headers))
    return found

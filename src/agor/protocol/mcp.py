"""Tool servers that speak MCP, which an agent may use beside its own tools. Pure data."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from msgspec import Meta, Struct

#: No NUL, as everywhere: no command takes one.
_Text = Annotated[str, Meta(max_length=10_000, pattern=r"^[^\x00]*$")]
ServerName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
McpTransport = Literal["stdio", "http", "sse"]

#: How a value names a credential that is put in its place: `${GITHUB_TOKEN}`, or `Bearer ${TOKEN}`.
REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,127})\}")


class McpServer(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """One server: a command to start, or an address.

    Values of `env` and `headers` may name credentials (`${NAME}`), which the executor fetches when
    the agent starts. Nothing secret belongs into them otherwise: they are stored as they are.
    """

    transport: McpTransport = "stdio"
    command: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None
    args: Annotated[list[_Text], Meta(max_length=200)] = []
    env: Annotated[dict[_Text, _Text], Meta(max_length=100)] = {}
    url: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None
    headers: Annotated[dict[_Text, _Text], Meta(max_length=100)] = {}

    def __repr__(self) -> str:
        # Once resolved, the values are secrets.
        return f"McpServer({self.transport}, {self.command or self.url!r})"

    @property
    def credentials(self) -> list[str]:
        """The names of the credentials it needs."""
        values = [*self.env.values(), *self.headers.values()]
        return [name for value in values for name in REFERENCE.findall(value)]

    def problem(self) -> str | None:
        """Say what is wrong with it, if something is."""
        if self.transport == "stdio":
            if self.command is None or self.url is not None or self.headers:
                return "a stdio server has a command, and neither url nor headers"
        elif self.url is None or self.command is not None or self.args or self.env:
            return f"an {self.transport} server has a url, and neither command, args nor env"
        return None


McpServers = Annotated[dict[ServerName, McpServer], Meta(max_length=50)]

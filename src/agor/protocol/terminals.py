"""Terminals in the environment: what is asked for, typed and printed. Pure data."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from agor.protocol.forms import Form, Identifier, Token

Cells = Annotated[int, Meta(ge=1, le=10_000)]


class SpawnTerminalParams(Form):
    """Open a shell in the environment."""

    session_token: Token
    cwd: Annotated[str, Meta(min_length=1)]
    shell: str | None = None
    env: dict[str, str] = {}
    cols: Cells = 80
    rows: Cells = 24


class SpawnTerminalResult(Form):
    """The shell that was opened."""

    terminal_id: str
    pid: int


class ResizeTerminalParams(Form):
    """A terminal's window changed."""

    session_token: Token
    terminal_id: Identifier
    cols: Cells
    rows: Cells


class CloseTerminalParams(Form):
    """A terminal is no longer wanted."""

    session_token: Token
    terminal_id: Identifier


class TerminalInputParams(Form):
    """Keys typed into a terminal; bytes, so base64 on the wire."""

    session_token: Token
    terminal_id: Identifier
    data: bytes


class ReportTerminalParams(Form):
    """What a terminal printed, or that it ended."""

    terminal_id: Identifier
    data: bytes | None = None
    exit_code: int | None = None

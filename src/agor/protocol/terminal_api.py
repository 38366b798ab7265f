"""What the daemon's HTTP interface takes and gives of terminals, shared with its client. Pure data.

On a terminal's WebSocket, what is printed and what is typed are binary frames, as they are; text
frames are the forms below. The first of them says where in the output the bytes behind it begin.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from agor.protocol.api import Given, Sent
from agor.protocol.terminals import Cells

TerminalStatus = Literal["open", "ended"]

#: What a terminal is called in a terminfo database.
TermName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._+-]+$")]
#: A path from the root on, or a name to look up: other paths would begin in nobody's folder.
Shell = Annotated[str, Meta(min_length=1, max_length=4096, pattern=r"^(/[^\x00]*|[^/\x00]+)$")]


class NewTerminal(Sent):
    """A shell to open in a session's workspace, as the session's Unix user."""

    cols: Cells = 80
    rows: Cells = 24
    #: An absolute path, or a name in the PATH there; the Unix user's own, if it is not said.
    shell: Shell | None = None
    #: What the client understands, for TERM.
    term: TermName = "xterm-256color"


class Terminal(Given):
    """A shell in a session's workspace; what was typed and printed in it is not kept."""

    terminal_id: str
    session_id: str
    #: Who opened it.
    user_id: str
    status: TerminalStatus
    shell: str
    cwd: str
    executor_id: str
    #: Clients that are attached now.
    clients: int
    created_at: int
    ended_at: int | None
    #: Of the shell, if it ended by itself.
    exit_code: int | None
    #: How it ended, in words.
    how: str | None


# ── on its WebSocket ─────────────────────────────────────────────────────────────────────────


class Attached(Struct, tag="attached", kw_only=True):
    """The next byte is at this place. Later than was asked for: what was before is not kept.

    It comes again if something was lost in between, which a client can tell from the place.
    """

    offset: int
    cols: int
    rows: int


class Exited(Struct, tag="exit", kw_only=True):
    """It has ended, and all that it printed was before this; the close of the WebSocket follows.

    Without an exit code the shell was ended: `how` says by whom or what.
    """

    exit_code: int | None
    how: str


class Resize(Struct, tag="resize", kw_only=True, forbid_unknown_fields=True):
    """The client's window has another size now."""

    cols: Cells
    rows: Cells


#: What the daemon says in text frames, and what a client may say.
Told = Attached | Exited

_told: msgspec.json.Decoder[Told] = msgspec.json.Decoder(Told)
_said = msgspec.json.Decoder(Resize)


def read_told(text: str) -> Told:
    """Read what the daemon says."""
    return _told.decode(text)


def read_said(text: str) -> Resize:
    """Read what a client says."""
    return _said.decode(text)

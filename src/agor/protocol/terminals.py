"""Terminals in the environment: what is asked for, typed and printed. Pure data.

What a terminal prints is numbered by bytes, from 0. An executor keeps the last of it, so that who
comes (back) sees the screen, and sends it only while somebody is attached: at most a window ahead
of what was acknowledged, so that a slow reader slows the program and not the daemon.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from agor.protocol.forms import Form, Identifier

Cells = Annotated[int, Meta(ge=1, le=10_000)]
#: A place in what a terminal printed: so many bytes were before it.
Offset = Annotated[int, Meta(ge=0, le=2**53)]

#: Bytes of a terminal's output that are kept for those who come later.
KEPT = 256 * 1024
#: Bytes that may be under way to the daemon without acknowledgement.
WINDOW = 256 * 1024
#: Bytes typed that are sent at once.
MAX_INPUT = 64 * 1024


class SpawnTerminalParams(Form):
    """Open a shell in the environment; asked again with the same id, it is opened once."""

    terminal_id: Identifier
    cwd: Annotated[str, Meta(min_length=1)]
    #: The person's own shell if none is named.
    shell: str | None = None
    env: dict[str, str] = {}
    cols: Cells = 80
    rows: Cells = 24


class SpawnTerminalResult(Form):
    """The shell that was opened."""

    terminal_id: str
    pid: int
    shell: str


class AttachTerminalParams(Form):
    """Send what a terminal prints over this connection, from a place on, or all that is kept."""

    terminal_id: Identifier
    after: Offset = 0


class AttachTerminalResult(Form):
    """What is kept from that place on; what is printed next follows as reports.

    `offset` is the place of the first byte, later than what was asked for if that is kept no more.
    """

    offset: int
    data: bytes
    cols: int
    rows: int
    exit_code: int | None = None


class DetachTerminalParams(Form):
    """Nobody looks at a terminal for now; it goes on."""

    terminal_id: Identifier


class ResizeTerminalParams(Form):
    """A terminal's window changed."""

    terminal_id: Identifier
    cols: Cells
    rows: Cells


class CloseTerminalParams(Form):
    """A terminal is no longer wanted: end its shell and what runs in it."""

    terminal_id: Identifier


class TerminalInputParams(Form):
    """Keys typed into a terminal; bytes, so base64 on the wire. Answered when they are taken."""

    terminal_id: Identifier
    data: Annotated[bytes, Meta(max_length=MAX_INPUT)]


class AckTerminalParams(Form):
    """Everything that a terminal printed before this place has been passed on."""

    terminal_id: Identifier
    offset: Offset


class ReportTerminalParams(Form):
    """What a terminal printed, from `offset` on; or, after all of it, that its shell ended."""

    terminal_id: Identifier
    offset: Offset
    data: bytes = b""
    exit_code: int | None = None


class TerminalInfo(Form):
    """A terminal of this executor, for a daemon that comes back."""

    terminal_id: str
    pid: int
    exit_code: int | None = None

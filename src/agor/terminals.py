"""The terminals of one executor, as a program sees them: open, look, type, resize, close.

What they print goes to the host of the executor, who says how far it has passed it on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from agor.errors import Disconnected, Overloaded
from agor.protocol.methods import (
    ACK_TERMINAL,
    ATTACH_TERMINAL,
    CLOSE_TERMINAL,
    DETACH_TERMINAL,
    RESIZE_TERMINAL,
    SPAWN_TERMINAL,
    TERMINAL_INPUT,
)
from agor.protocol.terminals import (
    AckTerminalParams,
    AttachTerminalParams,
    AttachTerminalResult,
    CloseTerminalParams,
    DetachTerminalParams,
    ResizeTerminalParams,
    SpawnTerminalParams,
    SpawnTerminalResult,
    TerminalInputParams,
)
from agor.rpc import Peer

#: Seconds for a terminal to be opened, looked at, resized or closed.
_TIMEOUT = 15.0


class Terminals:
    """Speaks of terminals over the present connection; `Disconnected` if there is none."""

    def __init__(self, connected: Callable[[], Peer]) -> None:
        self._connected = connected

    async def spawn(self, params: SpawnTerminalParams) -> SpawnTerminalResult:
        """Open a shell."""
        return await self._connected().call(SPAWN_TERMINAL, params, timeout=_TIMEOUT)

    async def attach(self, terminal_id: str, after: int = 0) -> AttachTerminalResult:
        """Have what a terminal prints from a place on; what comes next goes to the host."""
        params = AttachTerminalParams(terminal_id=terminal_id, after=after)
        return await self._connected().call(ATTACH_TERMINAL, params, timeout=_TIMEOUT)

    async def type(self, terminal_id: str, data: bytes) -> None:
        """Type keys; returns when they are taken, which a program that does not read delays."""
        params = TerminalInputParams(terminal_id=terminal_id, data=data)
        await self._connected().call(TERMINAL_INPUT, params, timeout=None)

    async def resize(self, terminal_id: str, cols: int, rows: int) -> None:
        """Tell what runs in a terminal how large its window is."""
        params = ResizeTerminalParams(terminal_id=terminal_id, cols=cols, rows=rows)
        await self._connected().call(RESIZE_TERMINAL, params, timeout=_TIMEOUT)

    async def close(self, terminal_id: str) -> None:
        """End a terminal's shell, and what runs in it."""
        params = CloseTerminalParams(terminal_id=terminal_id)
        await self._connected().call(CLOSE_TERMINAL, params, timeout=_TIMEOUT)

    def acknowledge(self, terminal_id: str, offset: int) -> None:
        """Say that what a terminal printed has been passed on up to here."""
        # Who is not there hears it when they are attached to again.
        with contextlib.suppress(Disconnected, Overloaded):
            params = AckTerminalParams(terminal_id=terminal_id, offset=offset)
            self._connected().notify(ACK_TERMINAL, params)

    def detach(self, terminal_id: str) -> None:
        """Say that nobody looks at a terminal now."""
        with contextlib.suppress(Disconnected, Overloaded):
            params = DetachTerminalParams(terminal_id=terminal_id)
            self._connected().notify(DETACH_TERMINAL, params)

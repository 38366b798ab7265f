"""The routes of terminals."""

from __future__ import annotations

from agor.daemon.api import terminal_socket, terminals
from agor.daemon.api.forms import TerminalQuery
from agor.daemon.api.route import WEBSOCKET, Route
from agor.errors import (
    Conflict,
    Disconnected,
    ImpersonationRefused,
    NotFound,
    PoolClosed,
    PoolError,
    PoolExhausted,
    StoreUnavailable,
    Unprocessable,
)
from agor.protocol.api import Page
from agor.protocol.terminal_api import NewTerminal, Terminal, Told

TERMINAL_ROUTES: list[Route] = [
    Route(
        method="POST", path="/sessions/{session_id}/terminals", action="terminal.open",
        handler=terminals.open_one,
        summary="Open a terminal in a session's workspace",
        details="A shell, as the Unix user that the session runs as. It has an executor of its "
        "own, and goes on while nobody is attached and while the daemon is restarted. If no "
        "executor is free for ten seconds it is refused.",
        body=NewTerminal, body_optional=True, result=Terminal, status=201,
        errors=(
            NotFound, Conflict, Unprocessable, StoreUnavailable, PoolExhausted, PoolClosed,
            PoolError, ImpersonationRefused, Disconnected,
        ),
    ),
    Route(
        method="GET", path="/sessions/{session_id}/terminals", action="terminal.use",
        handler=terminals.page,
        summary="List a session's terminals, the newest first",
        details="Those that are open, and the last that ended.",
        result=Page[Terminal], errors=(NotFound, StoreUnavailable),
    ),
    Route(
        method="GET", path="/terminals", action="terminal.list",
        handler=terminals.open_ones,
        summary="List your open terminals, the newest first",
        result=Page[Terminal],
    ),
    Route(
        method="GET", path="/terminals/{terminal_id}", action="terminal.use",
        handler=terminals.get,
        summary="Show a terminal",
        result=Terminal, errors=(NotFound, StoreUnavailable),
    ),
    Route(
        method="DELETE", path="/terminals/{terminal_id}", action="terminal.close",
        handler=terminals.close,
        summary="Close a terminal with all that runs in it",
        details="Answers once nothing of it is left. One that has ended is closed already.",
        status=204, errors=(NotFound, StoreUnavailable),
    ),
    Route(
        method=WEBSOCKET, path="/terminals/{terminal_id}", action="terminal.use",
        stream=terminal_socket.attach,
        summary="Attach to a terminal",
        details="Binary frames are what it prints, and what you type. Text frames are JSON: "
        "`attached` says at which byte of the output the next frame begins, `exit` that it has "
        "ended; `resize` is yours. To go on after a cut, ask again with how many bytes you have.",
        query=TerminalQuery, result=Told, status=101,
        errors=(
            NotFound, Conflict, Unprocessable, StoreUnavailable, PoolClosed, Disconnected,
        ),
    ),
]  # fmt: skip

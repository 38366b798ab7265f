"""The options of `agor run`, which `agor session` has too."""

from __future__ import annotations

from typing import Annotated

import typer

from agor.protocol.methods import PermissionMode

Agent = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="claude-code, codex, … (default: run.agent)."),
]
Mode = Annotated[
    PermissionMode | None,
    typer.Option(help="What the agent may do without asking.", show_default=False),
]
Model = Annotated[str | None, typer.Option(metavar="NAME", help="Another model than its own.")]
Timeout = Annotated[
    str | None, typer.Option(metavar="SPAN", help="Stop it after so long: 90s, 30m, 2h.")
]
Detach = Annotated[bool, typer.Option("--detach", "-d", help="Leave it at once; prints its id.")]
AsJson = Annotated[bool, typer.Option("--json", help="All events as lines of JSON.")]
Elsewhere = Annotated[
    bool, typer.Option("--ask-elsewhere", help="Leave its questions to people at other places.")
]

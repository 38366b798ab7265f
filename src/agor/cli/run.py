"""`agor run`: asks an agent to do something in this folder, and shows how it does it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agor.cli import background
from agor.cli.asking import remark
from agor.cli.conversing import Ask, Manner, converse, send
from agor.cli.moments import span
from agor.cli.prompting import prompt_from, title_from
from agor.client import Client
from agor.config import load
from agor.errors import Conflict, NotFound
from agor.home import Home
from agor.protocol.api import Session
from agor.protocol.methods import PermissionMode
from agor.protocol.workspaces import Repo

app = typer.Typer(add_completion=False)

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


@app.command()
def run(
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="What to do; - for standard input.")
    ] = None,
    agent: Agent = None,
    mode: Mode = None,
    model: Model = None,
    worktree: Annotated[
        bool, typer.Option("--worktree", help="In a new worktree of this repository.")
    ] = False,
    timeout: Timeout = None,
    detach: Detach = False,
    as_json: AsJson = False,
    ask_elsewhere: Elsewhere = False,
) -> None:
    """Ask an agent to do something in this folder, and watch it."""
    ask = Ask(prompt_from(prompt), timeout_ms=span(timeout))
    home = Home.find()
    name = agent or load(home.folder).run.agent
    _have_daemon(home)

    async def work() -> int:
        async with Client.local(home) as client:
            folder = Path.cwd()
            repo = await _repo_of(client, folder) if worktree else None
            session = await client.create_session(
                name,
                None if repo else folder,
                repo_id=repo.repo_id if repo else None,
                title=title_from(ask.prompt),
                permission_mode=mode or "default",
                model=model,
            )
            if repo is not None:
                remark(f"working in {session.workspace}")
            if not detach:
                return await converse(client, session, ask, Manner(as_json, ask_elsewhere))
            say_detached(session, await send(client, session, ask), as_json=as_json)
            return 0

    raise typer.Exit(asyncio.run(work()))


def say_detached(session: Session, task_id: str, *, as_json: bool) -> None:
    """Tell where a prompt has gone."""
    found = {"session_id": session.session_id, "task_id": task_id}
    typer.echo(json.dumps(found) if as_json else session.session_id)
    remark(f"agor session attach {session.session_id}  shows it")


def _have_daemon(home: Home) -> None:
    if home.running() is None:
        with Console(stderr=True).status("starting the daemon"):
            description, _ = background.start(home, [])
        remark(f"The daemon was started: {description.url}. agor daemon stop ends it.")


async def _repo_of(client: Client, folder: Path) -> Repo:
    """Find the repository that a folder is in; it is registered, if it was not yet."""
    try:
        return await client.repos.add(folder)
    except Conflict:
        repos = [repo async for repo in client.repos.list() if folder.is_relative_to(repo.path)]
    if not repos:
        raise NotFound(f"no repository of yours has {folder} in it", hint="See: agor repo list")
    return max(repos, key=lambda repo: len(repo.path))

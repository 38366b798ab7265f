"""`agor run`: asks an agent to do something in this folder, and shows how it does it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agor.cli.asking import ask, remark
from agor.cli.moments import span
from agor.cli.prompting import prompt_from, title_from
from agor.cli.run_options import Agent, AsJson, Detach, Elsewhere, Mode, Model, Timeout
from agor.errors import Conflict, NotFound
from agor.home import Home
from agor.protocol.workspaces import Repo

if TYPE_CHECKING:
    from agor.client import Client

app = typer.Typer(add_completion=False)


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
    # Imported late: a prompt that is missing is missed at once.
    from agor.cli.conversing import Ask, Manner, converse, leave_alone

    given = Ask(prompt_from(prompt), timeout_ms=span(timeout))
    name = agent or _usual_agent()

    async def work(client: Client) -> int:
        folder = Path.cwd()
        repo = await _repo_of(client, folder) if worktree else None
        session = await client.create_session(
            name,
            None if repo else folder,
            repo_id=repo.repo_id if repo else None,
            title=title_from(given.prompt),
            permission_mode=mode or "default",
            model=model,
        )
        if repo is not None:
            remark(f"working in {session.workspace}")
        if not detach:
            return await converse(client, session, given, Manner(as_json, ask_elsewhere))
        return await leave_alone(client, session, given, as_json=as_json)

    raise typer.Exit(ask(work))


def _usual_agent() -> str:
    from agor.config import load

    return load(Home.find().folder).run.agent


async def _repo_of(client: Client, folder: Path) -> Repo:
    """Find the repository that a folder is in; it is registered, if it was not yet."""
    try:
        return await client.repos.add(folder)
    except Conflict:
        repos = [repo async for repo in client.repos.list() if folder.is_relative_to(repo.path)]
    if not repos:
        raise NotFound(f"no repository of yours has {folder} in it", hint="See: agor repo list")
    return max(repos, key=lambda repo: len(repo.path))

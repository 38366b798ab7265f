"""`agor repo`: the repositories that agents work on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from agor.cli.asking import ask, remark
from agor.cli.printable import printable
from agor.cli.tables import print_table
from agor.client import Client
from agor.errors import BadInput, GitFailed, NotFound
from agor.protocol.validation import quoted
from agor.protocol.workspaces import Repo

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Register and clone repositories."
)

Given = Annotated[str | None, typer.Option("--name", help="What to call it (default: its folder).")]
Named = Annotated[str, typer.Argument(metavar="NAME", help="Its name, or its id.")]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]


@app.command()
def add(
    path: Annotated[Path, typer.Argument(help="A folder in the repository.")] = Path(),
    name: Given = None,
) -> None:
    """Register a repository that is on this machine."""
    repo = ask(lambda client: client.repos.add(path.absolute(), name=name))
    typer.echo(f"{printable(repo.name)} is registered: {printable(repo.path)}")
    remark(f"agor worktree create {repo.name}  makes a worktree of it")


@app.command()
def clone(
    url: Annotated[str, typer.Argument(help="https://…, ssh://…, USER@HOST:PATH, or a path.")],
    name: Given = None,
) -> None:
    """Clone a repository into a folder of your own, and wait for it. Ctrl-C calls it off."""

    async def work(client: Client) -> Repo:
        begun = await client.repos.clone(url, name=name)
        try:
            with Console(stderr=True).status("cloning"):
                return await client.repos.wait_cloned(begun.repo_id)
        except BaseException:
            await client.repos.remove(begun.repo_id)
            raise

    repo = ask(work)
    if repo.problem is not None:
        raise GitFailed(repo.problem.message, hint=repo.problem.hint)
    typer.echo(f"{printable(repo.name)} is cloned: {printable(repo.path)}")


@app.command("list")
def list_all(as_json: AsJson = False) -> None:
    """List repositories."""

    async def work(client: Client) -> list[Repo]:
        return [repo async for repo in client.repos.list()]

    repos = ask(work)
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(repos)))
        return
    lines = [(repo.name, repo.status, repo.path, repo.url or "") for repo in repos]
    print_table([("name", "status", "path", "cloned from"), *lines])


@app.command()
def remove(name: Named) -> None:
    """Forget a repository, or call its clone off. The folder of a whole one stays."""

    async def work(client: Client) -> Repo:
        repo = await find(client, name)
        await client.repos.remove(repo.repo_id)
        return repo

    repo = ask(work)
    typer.echo(f"{printable(repo.name)} is forgotten")
    if repo.status == "ready":
        remark(f"Its folder stays: {repo.path}")


async def find(client: Client, name: str) -> Repo:
    """Find a repository by its name or its id; raises `NotFound`."""
    found = [repo async for repo in client.repos.list() if name in (repo.name, repo.repo_id)]
    if not found:
        hint = "`agor repo list` lists those there are."
        raise NotFound(f"there is no repository {quoted(name)}", hint=hint)
    if len(found) > 1:
        ids = "".join(f"\n{repo.repo_id}  {repo.path}" for repo in found)
        raise BadInput(f"{len(found)} repositories are called {name}", hint=f"Give its id:{ids}")
    return found[0]

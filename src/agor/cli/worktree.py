"""`agor worktree`: where sessions work, what was done there, and what was left behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from agor.cli import repo
from agor.cli.asking import ask, remark
from agor.cli.printable import printable
from agor.cli.repo import AsJson
from agor.cli.tables import print_table, size
from agor.client import Client
from agor.errors import BadInput, NotFound
from agor.protocol.validation import quoted
from agor.protocol.workspaces import Diff, Orphans, Worktree, WorktreeDetails, WorktreeRemoved

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Make worktrees, look at them, remove them."
)

Named = Annotated[str, typer.Argument(metavar="NAME", help="Its name, its path, or its id.")]
_SIGNS = {"+": "green", "-": "red", "@": "cyan"}


@app.command()
def create(
    repository: Annotated[str, typer.Argument(metavar="REPO", help="The repository's name or id.")],
    name: Annotated[str | None, typer.Option(help="What to call it.")] = None,
    branch: Annotated[
        str | None, typer.Option(help="The new branch (default: agor/ and its name).")
    ] = None,
    base: Annotated[
        str | None, typer.Option(help="What it begins at (default: the repository's HEAD).")
    ] = None,
) -> None:
    """Make a worktree of a repository, on a branch of its own."""

    async def work(client: Client) -> Worktree:
        found = await repo.find(client, repository)
        return await client.worktrees.make(found.repo_id, name=name, branch=branch, base=base)

    made = ask(work)
    typer.echo(printable(made.path))
    remark(f"{made.name}: branch {made.branch}, from {made.base} ({made.base_commit[:12]})")


@app.command("list")
def list_all(as_json: AsJson = False) -> None:
    """List worktrees."""

    async def work(client: Client) -> list[Worktree]:
        return [each async for each in client.worktrees.list()]

    found = ask(work)
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(found)))
        return
    lines = [(each.name, each.status, each.branch, each.path) for each in found]
    print_table([("name", "status", "branch", "path"), *lines])


@app.command()
def status(name: Named, as_json: AsJson = False) -> None:
    """Say how a worktree stands: changes, commits, disk use."""

    async def work(client: Client) -> WorktreeDetails:
        return await client.worktrees.get((await _find(client, name)).worktree_id)

    found = ask(work)
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(found)))
        return
    for label, fact in _facts(found):
        typer.echo(printable(f"{label:<10} {fact}"))
    for file in found.state.files:
        typer.echo(printable(f"  {file.code:<2} {file.path}"))


def _facts(found: WorktreeDetails) -> Iterator[tuple[str, str]]:
    state = found.state
    yield "name", found.name
    yield "path", found.path
    yield "branch", state.head_branch or found.branch
    yield "began at", f"{found.base} ({found.base_commit[:12]})"
    yield "folder", state.folder + (f": {state.detail}" if state.detail else "")
    if state.changed is not None:
        least = "at least " if state.counts_cut else ""
        yield "changes", f"{least}{state.changed} changed, {state.untracked} new"
        far = [("ahead", state.ahead), ("behind", state.behind), ("not pushed", state.unpushed)]
        yield "commits", ", ".join(f"{count} {word}" for word, count in far if count is not None)
        yield "disk", size(state.disk_bytes, at_least=state.disk_cut)
    for session_id in found.session_ids:
        yield "session", session_id


@app.command()
def diff(
    name: Named,
    as_json: AsJson = False,
    stat: Annotated[bool, typer.Option("--stat", help="Only the files, with counts.")] = False,
) -> None:
    """Show what was done in a worktree since it began, uncommitted and new files included."""

    async def work(client: Client) -> Diff:
        return await client.worktrees.diff((await _find(client, name)).worktree_id)

    found = ask(work)
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(found)))
    elif stat:
        for file in found.files:
            counts = "binary" if file.binary else f"+{file.additions} -{file.deletions}"
            typer.echo(printable(f"{file.status}  {counts:<14}{file.path}"))
    else:
        console = Console(highlight=False, soft_wrap=True)
        for line in found.patch.splitlines():
            console.print(Text(printable(line), _SIGNS.get(line[:1], "")))
    if found.patch_cut or found.files_cut:
        remark("There is more: this was cut. Look at it with git diff in the worktree itself.")


@app.command()
def remove(
    name: Named,
    discard: Annotated[
        bool,
        typer.Option("--discard", help="Also if there is work in it; it is saved as a hidden ref."),
    ] = False,
) -> None:
    """Remove a worktree. Work that is in no commit is in the way; commits are never lost."""

    async def work(client: Client) -> WorktreeRemoved:
        found = await _find(client, name)
        return await client.worktrees.remove(found.worktree_id, discard=discard)

    removed = ask(work)
    typer.echo(f"{printable(removed.path)} is removed")
    if removed.branch_kept is not None:
        remark(f"The branch {removed.branch} stays: {removed.branch_kept}.")
    if removed.saved_ref is not None:
        remark(f"What was in it is saved: git switch --detach {removed.saved_ref}")


@app.command()
def prune(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find what crashes and hands left behind; remove what nothing is lost with."""

    async def work(client: Client) -> Orphans:
        return await (client.worktrees.orphans() if dry_run else client.worktrees.prune())

    found = ask(work)
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(found)))
        return
    for orphan in found.items:
        free = "would be removed" if dry_run else "is left"
        what = "removed" if orphan.removed else f"kept: {orphan.kept}" if orphan.kept else free
        typer.echo(printable(f"{orphan.path or orphan.branch}: {orphan.detail}; {what}"))
    if not found.items:
        typer.echo("nothing was left behind")
    for why in found.unseen:
        remark(f"Not looked at: {why}")


async def _find(client: Client, name: str) -> Worktree:
    found = [
        each
        async for each in client.worktrees.list()
        if name in (each.name, each.path, each.worktree_id)
    ]
    if not found:
        hint = "`agor worktree list` lists those there are."
        raise NotFound(f"there is no worktree {quoted(name)}", hint=hint)
    if len(found) > 1:
        paths = "".join(f"\n{each.path}" for each in found)
        raise BadInput(f"{len(found)} worktrees are called {name}", hint=f"Give its path:{paths}")
    return found[0]

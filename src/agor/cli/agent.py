"""`agor agent`: which agents there are, and what it takes to have them here."""

from __future__ import annotations

import json
from typing import Annotated, Any, Self

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from agor.catalogue import CATALOGUE, KnownAgent
from agor.cli.agents_folder import configured_folder
from agor.cli.asking import remark
from agor.cli.printable import printable
from agor.cli.tables import print_table
from agor.errors import BadInput
from agor.home import Home
from agor.installing.looking import Look, look

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Install agents, and see whether they can work.",
)

Names = Annotated[list[str], typer.Argument(metavar="NAME…", help="For example: codex")]


@app.command("list")
def list_all(
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON array.")] = False,
) -> None:
    """Show which agents there are, and which of them can be used here."""
    folder = configured_folder()
    found = [look(agent, folder) for agent in CATALOGUE.values()]
    if as_json:
        typer.echo(json.dumps([_facts(each) for each in found]))
        return
    lines = [("agent", "what", "version", "state")]
    lines += [
        (each.agent.name, each.agent.title, each.version or "-", _state(each)) for each in found
    ]
    print_table(lines)
    remark("Any other agent that speaks ACP goes by the name acp:COMMAND.")


@app.command("install")
def install(names: Names) -> None:
    """Install agents, or bring them to the version that this agor was tested with."""
    # Imported late: nothing else needs it.
    from agor.installing.install import install as install_one

    folder = configured_folder()
    home = Home.find()
    if home.folder in folder.path.parents:
        # Nobody else can enter it, whoever makes it first.
        home.prepare()
    for agent in [_named(name) for name in dict.fromkeys(names)]:
        with _Progress(agent) as progress:
            done = install_one(agent, folder, on_begin=progress.begin, on_wait=progress.wait)
        state = "is installed" if progress.begun else "is there already"
        typer.echo(f"{agent.name} {done.version} {state}: {done.path}")


@app.command("check")
def check(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME…]", help="Those that are needed.")
    ] = None,
    unix_users: Annotated[
        list[str] | None,
        typer.Option("--as", metavar="USER", help="Also as this Unix user. Repeatable."),
    ] = None,
) -> None:
    """Check that agents can work here: all that are installed, or those that are named."""
    # Imported late: they bring the client along.
    from agor.cli.agent_findings import examine
    from agor.cli.doctor import report

    wanted = [_named(name) for name in dict.fromkeys(names or [])]
    report(examine(configured_folder(), wanted, unix_users or []))


class _Progress:
    """Says on standard error what is being done; in a terminal, for how long."""

    def __init__(self, agent: KnownAgent) -> None:
        package = agent.package
        self._words = f"installing {agent.name} {package.version}, about {package.megabytes} MB"
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._shown = Progress(
            SpinnerColumn(), TextColumn("[dim]{task.description}"), TimeElapsedColumn(),
            console=console, transient=True,
        )  # fmt: skip
        self._task = self._shown.add_task(f"looking for {agent.name}", total=None)
        self._quiet = not console.is_terminal
        self.begun = False

    def __enter__(self) -> Self:
        if not self._quiet:
            self._shown.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._quiet:
            self._shown.stop()

    def begin(self) -> None:
        """It is not there yet."""
        self.begun = True
        self._tell(self._words)

    def wait(self) -> None:
        """Somebody else has the folder."""
        self._tell("somebody else is installing; waiting for them")

    def _tell(self, words: str) -> None:
        self._shown.update(self._task, description=words)
        if self._quiet:
            remark(words)


def _named(name: str) -> KnownAgent:
    if name not in CATALOGUE:
        raise BadInput(
            f"there is no agent {printable(name)!r} to install",
            hint=f"Known agents: {', '.join(CATALOGUE)}.",
        )
    return CATALOGUE[name]


def _state(found: Look) -> str:
    if found.path is None:
        return f"not installed; agor agent install {found.agent.name}"
    if found.why_not:
        return found.why_not
    where = "" if found.ours else f", {found.path}"
    if not found.as_pinned:
        wanted = found.agent.package.version
        return f"older than {wanted}{where}; agor agent install {found.agent.name}"
    return f"available{where}"


def _facts(found: Look) -> dict[str, Any]:
    agent = found.agent
    return {
        "name": agent.name,
        "title": agent.title,
        "available": found.path is not None and found.why_not is None,
        "reason": found.why_not,
        "version": found.version,
        "wanted_version": agent.package.version,
        "program": None if found.path is None else str(found.path),
        "installed_by_agor": found.ours,
        "credentials": list(agent.keys),
    }

"""The command `agor`: puts the command groups together."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

import agor
from agor import logs
from agor.cli import (
    agent,
    audit,
    config,
    credential,
    daemon,
    demo,
    doctor,
    model_server,
    repo,
    rule,
    token,
    user,
    worktree,
)
from agor.cli.view import printable
from agor.errors import AgorError

app = typer.Typer(
    name="agor",
    help="Run coding agents safely, for a whole team, on your own machines.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(daemon.app, name="daemon")
app.add_typer(config.app, name="config")
app.add_typer(user.app, name="user")
app.add_typer(token.app, name="token")
app.add_typer(rule.app, name="rule")
app.add_typer(audit.app, name="audit")
app.add_typer(credential.app, name="credential")
app.add_typer(agent.app, name="agent")
app.add_typer(repo.app, name="repo")
app.add_typer(worktree.app, name="worktree")
app.command("demo")(demo.demo)
app.command("doctor")(doctor.doctor)
app.command("model-server")(model_server.model_server)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"agor {agor.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Take the options that every command has."""


def main() -> None:
    """Run the command, and say in words what went wrong if something did."""
    logs.configure("warning", "console")
    try:
        app()
    except AgorError as error:
        console = Console(stderr=True, soft_wrap=True, highlight=False)
        console.print(Text.assemble(("error: ", "bold red"), printable(error.message)))
        if error.hint:
            console.print(Text(printable(error.hint), "dim"))
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()

"""The command `agor`: puts the command groups together."""

from __future__ import annotations

from typing import Annotated

import typer

import agor
from agor.cli.commands import Commands
from agor.errors import AgorError

app = typer.Typer(
    name="agor",
    cls=Commands,
    help="Run coding agents safely, for a whole team, on your own machines.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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
    try:
        app()
    except AgorError as error:
        _say(error)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _say(error: AgorError) -> None:
    # Imported late: most commands succeed.
    from rich.console import Console
    from rich.text import Text

    from agor.cli.printable import printable

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text.assemble(("error: ", "bold red"), printable(error.message)))
    if error.hint:
        console.print(Text(printable(error.hint), "dim"))


if __name__ == "__main__":
    main()

"""`agor config`: looks at the settings and changes them.

Results go to standard output, remarks to standard error: `$(agor config get daemon.port)` is the
value and nothing else. A password is never shown; it stands in the file.
"""

from __future__ import annotations

import getpass
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from agor.cli.printable import printable
from agor.config.editing import key_named, problem_of, set_value, unset_value
from agor.config.keys import KEYS
from agor.config.reading import Setting, from_variables, settings
from agor.errors import AgorError
from agor.home import Home

#: The columns of the list, and from which width on a terminal has room for a fourth.
_WIDTHS = (max(map(len, KEYS)), 30, 22)
_NARROW = (max(map(len, KEYS)), 20, 0)
_WIDE = 170
_FROM_INPUT = "-"

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Look at the settings and change them."
)

Name = Annotated[str, typer.Argument(metavar="KEY", help="For example: execution.max_executors")]


@app.command("list")
def list_all() -> None:
    """Show every setting: its value, where that comes from, what it means."""
    console = Console(highlight=False, soft_wrap=True)
    # Where nobody looks, every setting is on one line, for grep and the like.
    on_one_line = not console.is_terminal or console.width >= _WIDE
    widths = _WIDTHS if on_one_line else _NARROW
    last = "meaning" if on_one_line else ""
    console.print(_line(widths, "setting", "value", "from", last, "bold"))
    for setting in settings().values():
        style = "dim" if setting.origin == "default" else "bold green"
        facts = setting.key.name, printable(setting.shown), _origin(setting)
        if on_one_line:
            console.print(_line(widths, *facts, setting.key.meaning, style))
        else:
            console.print(_line(widths, *facts, "", style))
            console.print(Text(f"    {setting.key.meaning}", "dim italic"))


@app.command("get")
def get(name: Name) -> None:
    """Print the value of a setting, and nothing else."""
    key = key_named(name)
    setting = settings()[name]
    typer.echo(setting.shown)
    if key.kind.secret and setting.shown != setting.value:
        _remark("The password is hidden.")


@app.command("set", context_settings={"ignore_unknown_options": True})
def set_one(
    name: Name,
    value: Annotated[
        str,
        typer.Argument(help="The new value; - reads it from standard input, to keep it secret."),
    ],
) -> None:
    """Change a setting in the file. The rest of the file stays as it is."""
    home = Home.find()
    key = key_named(name)
    text = _typed(name) if value == _FROM_INPUT else value
    shown = set_value(home, name, text)
    typer.echo(f"{name} = {printable(shown)}")
    _remarks(home, key.variable)


@app.command("unset")
def unset(name: Name) -> None:
    """Take a setting out of the file, so that it has its default again."""
    home = Home.find()
    if not unset_value(home, name):
        typer.echo(f"{name} is not in {home.config_file}")
    elif key := KEYS.get(name):
        typer.echo(f"{name} = {key.kind.show(key.default)} (the default)")
        _remarks(home, key.variable)
    else:
        typer.echo(f"{printable(name)} is taken out")


@app.command("path")
def path() -> None:
    """Print where the file is."""
    typer.echo(str(Home.find().config_file))


def _typed(name: str) -> str:
    if sys.stdin.isatty():
        return getpass.getpass(f"{name}: ")
    return sys.stdin.readline().rstrip("\r\n")


def _line(
    widths: tuple[int, int, int], name: str, value: str, origin: str, meaning: str, style: str
) -> Text:
    """Put a line of the table together; what is too long for its column moves the rest."""
    first, second, third = widths
    line = Text.assemble(f"{name:<{first}}  ", (f"{value:<{second}}", style))
    line.append(f"  {origin:<{third}}", "dim").append(f"  {meaning}" if meaning else "")
    line.rstrip()
    return line


def _origin(setting: Setting) -> str:
    if setting.origin == "default":
        return "default"
    where = "file" if setting.origin == "file" else "variable"
    return f"{where} (default: {setting.key.kind.show(setting.key.default)})"


def _remarks(home: Home, variable: str) -> None:
    """Say what keeps a change from having its effect."""
    try:
        overridden = any(each.origin == variable for each in from_variables().values())
    except AgorError as error:
        _remark(f"But: {error.message}")
        overridden = False
    if overridden:
        _remark(f"But the environment variable {variable} overrides it here.")
    if problem := problem_of(home):
        _remark(f"But something else in the file is wrong: {problem.message}")
    if home.running() is not None:
        _remark("It takes effect after: agor daemon restart")


def _remark(text: str) -> None:
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text(printable(text), "yellow"))

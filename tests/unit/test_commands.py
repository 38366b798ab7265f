"""The table of commands: true, whole, quick to start with, and all of it in the reference."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.testing import CliRunner

from agor.cli.commands import COMMANDS, load
from agor.cli.main import app

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"
#: Each of these takes longer than all that `agor --version` needs.
HEAVY = {
    "asyncio",
    "httpx",
    "websockets",
    "structlog",
    "uvloop",
    "ruamel",
    "sqlalchemy",
    "pydantic",
}


def modules_after(*arguments: str, home: Path) -> set[str]:
    """Run a command in an interpreter of its own; gives what it has imported by then."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('\\n!', *sys.modules))\n"
        f"sys.argv = ['agor', *{arguments!r}]\n"
        "from agor.cli.main import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
        env={"AGOR_HOME": str(home)},
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return set(done.stdout.rpartition("\n! ")[2].split())


@pytest.mark.parametrize(
    ("arguments", "may_import"),
    [
        (("--version",), set()),
        (("--help",), set()),
        # Typer checks arguments with pydantic.
        (("daemon", "status"), {"pydantic"}),
    ],
)
def test_quick_commands_import_nothing_heavy(arguments, may_import, tmp_path):
    found = modules_after(*arguments, home=tmp_path / "home")
    assert "agor.cli.commands" in found
    assert HEAVY & found <= may_import
    assert not {name for name in found if name.startswith(("agor.client", "agor.daemon"))}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_line_of_the_help_is_what_the_command_says_of_itself(name):
    command = load(name)
    assert command.help.split("\n\n")[0].replace("\n", " ") == COMMANDS[name].help


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_no_options_that_are_not_its_own(name):
    options = {option for param in load(name).params for option in param.opts}
    assert not options & {"--install-completion", "--show-completion"}


def test_no_command_is_forgotten():
    folder = Path(sys.modules["agor.cli.commands"].__file__ or "").parent
    apps = {path.stem for path in folder.glob("*.py") if "\napp = typer.Typer(" in path.read_text()}
    assert {entry.module for entry in COMMANDS.values()} == apps - {"main"}


def test_a_typing_mistake_gets_the_command_that_was_meant():
    done = subprocess.run(
        [sys.executable, "-m", "agor.cli.main", "deamon"],
        capture_output=True, text=True, timeout=60, env=os.environ | {"COLUMNS": "200"},
    )  # fmt: skip
    assert done.returncode == 2
    assert "Did you mean 'daemon'" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["run", "-"],
        ["run", "  "],
        ["run", "x", "--mode", "nonsense"],
        ["run", "x", "--timeout", "soon"],
        ["session", "prompt", "a", "b", "c"],
        ["permission", "allow", "x", "--scope", "nonsense"],
    ],
)
def test_what_cannot_be_meant_is_refused_with_two_before_anything_happens(arguments, tmp_path):
    done = CliRunner().invoke(app, arguments, input="", env={"AGOR_HOME": str(tmp_path / "home")})
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Usage: " in done.stderr
    assert not (tmp_path / "home").exists()


def leaves(command: Any, words: str) -> Iterator[tuple[str, Any]]:
    """All commands that can be run, each with its words."""
    if not isinstance(command, TyperGroup):
        yield words, command
        return
    for name, below in command.commands.items():
        yield from leaves(below, f"{words} {name}")


ALL = [pair for name in COMMANDS for pair in leaves(load(name), f"agor {name}")]


@pytest.mark.parametrize(("words", "command"), ALL, ids=[words for words, _ in ALL])
def test_every_command_and_each_of_its_options_is_in_the_reference(words, command):
    page = REFERENCE.read_text(encoding="utf-8")
    sections = [part for part in page.split("\n## ") if re.search(rf"`{words}\b", part)]
    assert sections, f"{words} is not documented"
    missing = [
        param.opts
        for param in command.params
        if param.param_type_name == "option"
        and not any(option in part for option in param.opts for part in sections)
    ]
    assert missing == []

"""Check the words of a command line against the command's own parser, without running it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer._click.exceptions import ClickException
from typer.core import TyperGroup

from agor.cli.commands import COMMANDS, load
from agor.config.keys import KEYS
from agor.executor import main as executor
from tests.docs.examples import ROOT

_COMMAND = re.compile(r"(?:\S*/)?(agor-executor|agor|make)")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_ENDS = frozenset({";", "|", "||", "&&", "&", "(", ")", ";;", "|&"})
_REDIRECTIONS = frozenset({"<", ">", ">>", "<<", ">&", "<&", "&>"})
#: Options that `agor-executor` takes before its parser is imported.
_BEFORE_PARSING = {"--errand"}


def commands_in(script: str) -> Iterator[list[str]]:
    """Find the commands of ours in a shell script, also those inside `$(…)`."""
    for line in re.sub(r"\\\n", " ", script).splitlines():
        # Those inside `$(…)` by themselves, and the line around them.
        inside = re.findall(r"\$\(([^()]*)\)", line)
        for part in (re.sub(r"\$\([^()]*\)", "X", line), *inside):
            yield from _commands_in_line(part)


def _commands_in_line(line: str) -> Iterator[list[str]]:
    words: list[str] = []
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    lexer.commenters, lexer.whitespace_split = "#", True
    skip = False
    try:
        tokens = list(lexer)
    except ValueError:
        return  # One line of a quoted text that goes over several.
    for token in [*tokens, ";"]:
        if token in _ENDS:
            if words and (command := _COMMAND.fullmatch(words[0])):
                yield [command[1], *words[1:]]
            words = []
        elif skip:
            skip = False
        elif token in _REDIRECTIONS:
            skip = True
        elif words or not _ASSIGNMENT.fullmatch(token):
            words.append(token)


def wrong_in_command(words: list[str]) -> str | None:
    """Say what the parser of the command has against a whole command line; nothing, if it fits."""
    name, *arguments = words
    if name == "make":
        return _wrong_in_make(arguments)
    if name == "agor-executor":
        return _wrong_in_executor(arguments)
    command, path, rest = _resolve(arguments)
    if command is None:
        return f"there is no command {path!r}"
    if isinstance(command, TyperGroup):
        return f"{path!r} needs one of the commands {', '.join(sorted(command.commands))}"
    try:
        command.make_context(path, list(rest))
    except ClickException as error:
        return f"{path}: {error.format_message()}"
    return _wrong_setting(path, rest)


def wrong_in_usage(text: str) -> str | None:
    """Say what is wrong in a command that is only named, or shown with its options in brackets."""
    name, *words = re.sub(r"[\[\]…]", " ", text).split()
    options = [word for word in words if re.fullmatch(r"--?[a-z][\w-]*", word)]
    if name == "make":
        return _wrong_in_make(words)
    if name == "agor-executor":
        known = _BEFORE_PARSING | set(executor._parser()._option_string_actions)
        return _unknown("agor-executor", options, known)
    if not words or words[0].startswith("-"):
        return _unknown("agor", options, {"--version", "--help"})
    for alternative in _alternatives(words):
        command, path, rest = _resolve(alternative)
        if command is None:
            return f"there is no command {path!r}"
        known = {"--help"} | {option for param in command.params for option in param.opts}
        if wrong := _unknown(path, options, known) or _wrong_setting(path, rest):
            return wrong
    return None


def _alternatives(words: list[str]) -> list[list[str]]:
    """Take `agor config get|set` for two commands."""
    if len(words) > 1 and "|" in words[1]:
        return [[words[0], other, *words[2:]] for other in words[1].split("|")]
    return [words]


def _resolve(words: list[str]) -> tuple[Any, str, list[str]]:
    """Follow the words to a command; gives it, its words, and what remains."""
    name, *rest = words or [""]
    if name not in COMMANDS:
        return None, f"agor {name}", rest
    command: Any = load(name)
    path = f"agor {name}"
    while isinstance(command, TyperGroup) and rest:
        name, *rest = rest
        path = f"{path} {name}"
        if name not in command.commands:
            return None, path, rest
        command = command.commands[name]
    return command, path, rest


def _wrong_setting(path: str, rest: list[str]) -> str | None:
    if re.fullmatch("agor config (get|set|unset)", path) and rest and not rest[0].isupper():
        return None if rest[0] in KEYS else f"no setting is named {rest[0]}"
    return None


def _unknown(path: str, options: list[str], known: set[str]) -> str | None:
    strange = [option for option in options if option not in known]
    return f"{path} has no option {', '.join(strange)}" if strange else None


def _wrong_in_executor(arguments: list[str]) -> str | None:
    parser = executor._parser()
    parser.allow_abbrev = False
    try:
        parser.parse_args(arguments)
    except SystemExit:
        return f"agor-executor does not take {shlex.join(arguments)}"
    return None


def _wrong_in_make(words: list[str]) -> str | None:
    makefile = Path(ROOT, "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    variables = set(re.findall(r"\$\((?:or |if )?([A-Z_]+)", makefile))
    for word in words:
        name, assigned, _ = word.partition("=")
        if assigned and name not in variables:
            return f"no variable {name} is used in the Makefile"
        if not assigned and word not in targets:
            return f"the Makefile has no target {word!r}"
    return None

"""The words in which a setting is refused: where it stands, what was found, what is allowed.

A value that may hold a password is never repeated.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from ruamel.yaml.constructor import DuplicateKeyError

from agor.config.database_url import kind_of_url
from agor.config.keys import KEYS, SECTIONS, Key
from agor.errors import BadConfig

_LONGEST = 60
#: What the parser's messages quote.
_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")


def unknown_key(name: str, place: str = "") -> BadConfig:
    """There is no such setting."""
    if name in SECTIONS:
        message = f"{name} is a section, not a setting"
        return _refusal(place, message, f"Its settings: {_names_below(name)}.")
    section = name.rpartition(".")[0]
    while section and section not in SECTIONS:
        section = section.rpartition(".")[0]
    if section in SECTIONS:
        listed = f"The settings of {section}: {_names_below(section)}."
    else:
        top = [each for each in SECTIONS if "." not in each]
        listed = f"The sections: {', '.join(sorted(top))}."
    close = near(name, [*KEYS, *SECTIONS])
    meant = f"Did you mean {close}? " if close else ""
    return _refusal(place, f"there is no setting {shown(name)}", meant + listed)


def unknown_variable(variable: str) -> BadConfig:
    """An environment variable looks like a setting and is none."""
    close = near(variable.upper(), [key.variable for key in KEYS.values()])
    meant = f"Did you mean {close}? " if close else ""
    return BadConfig(
        f"the environment variable {shown(variable)} stands for no setting",
        hint=f"{meant}`agor config list` shows all settings; AGOR_DAEMON__PORT is daemon.port.",
    )


def bad_value(key: Key, value: object, place: str = "") -> BadConfig:
    """A setting cannot have this value."""
    if not key.kind.secret:
        found = shown(value)
    elif isinstance(value, str) and (scheme := kind_of_url(value)):
        found = f"this {scheme}:// address"
    else:
        found = "what was found"
    return _refusal(place, f"{key.name} cannot be {found}", f"It must be {key.kind.allowed}.")


def not_a_section(name: str, place: str) -> BadConfig:
    """Something else stands where settings should be."""
    if not name:
        return _refusal(
            place, "the file must have sections with settings", "For example: daemon: {port: 3030}"
        )
    return _refusal(
        place, f"{name} must be a section with settings", f"Its settings: {_names_below(name)}."
    )


def not_yaml(error: Exception, file: str) -> BadConfig:
    """The file has something that is no YAML. No word of it is repeated."""
    if isinstance(error, DuplicateKeyError):
        why = "the same name is there twice"
    elif isinstance(error, RecursionError):
        why = "it is nested too deeply"
    else:
        problem = getattr(error, "problem", None) or getattr(error, "reason", None)
        why = _QUOTED.sub(_unless_a_sign, str(problem)) if problem else "it cannot be read"
    mark = getattr(error, "problem_mark", None)
    place = f"{file}, line {mark.line + 1}" if mark else file
    example = "Sections and settings look like this:\ndaemon:\n  port: 3030"
    return BadConfig(f"{place}: this is not YAML: {why}", hint=example)


def with_a_dot(name: str, place: str) -> BadConfig:
    """A setting is written as `daemon.port: 3030`."""
    lines = [f"{'  ' * depth}{each}:" for depth, each in enumerate(name.split("."))]
    hint = "Write it with its section, on lines of their own:\n" + "\n".join(lines) + " …"
    return BadConfig(f"{place}: {name} is written with a dot", hint=hint)


def shown(value: object) -> str:
    """Show what was found, on one short line and without steering the terminal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "empty"
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, (list, set, tuple)):
        return "a list"
    text = repr(value) if isinstance(value, (str, int, float)) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def near(name: str, names: Iterable[str]) -> str | None:
    """Find what was probably meant."""
    names = list(names)
    last = [each for each in names if each.rpartition(".")[2] == name.rpartition(".")[2]]
    found = difflib.get_close_matches(name, names, n=1, cutoff=0.75) or last
    return found[0] if len(found) == 1 else None


def _refusal(place: str, message: str, hint: str) -> BadConfig:
    return BadConfig(f"{place}: {message}" if place else message, hint=hint)


def _names_below(section: str) -> str:
    """List the settings of a section, with those of its own sections."""
    inside = f"{section}."
    return ", ".join(name.removeprefix(inside) for name in KEYS if name.startswith(inside))


def _unless_a_sign(quoted: re.Match[str]) -> str:
    """Leave out what is quoted from the file, but for single signs; <…> is the parser's own."""
    inside = quoted[0][1:-1]
    return quoted[0] if len(inside) == 1 or inside[:1] in ("<", "\\") else "…"

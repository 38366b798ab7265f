"""Where the settings of a run come from: the file, and variables that override it.

Everything is checked at once, so that a daemon either starts with what was meant or says what is
wrong, where, and what would be right. An absent or empty file is all defaults.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml.nodes import MappingNode, Node

from agor import private
from agor.config.keys import KEYS, SECTIONS, Config, Key, build
from agor.config.refusal import bad_value, not_a_section, unknown_key, unknown_variable, with_a_dot
from agor.config.yaml_text import is_empty, members, parse, value_of
from agor.errors import BadConfig
from agor.home import Home

_PREFIX = "AGOR_"
#: Bytes of a file that is surely no configuration.
_TOO_LARGE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting as it is in this run."""

    key: Key
    value: Any
    #: `default`, `file`, or the name of the variable.
    origin: str

    @property
    def shown(self) -> str:
        """The value as a person would write it; a password in it is hidden."""
        return self.key.kind.show(self.value)


def load(home: Path | None = None, env: Mapping[str, str] | None = None) -> Config:
    """Read the configuration of a home: its file and AGOR_… variables."""
    return build({name: setting.value for name, setting in settings(home, env).items()})


def settings(home: Path | None = None, env: Mapping[str, str] | None = None) -> dict[str, Setting]:
    """Tell every setting of this run, and where it comes from."""
    place = Home.find() if home is None else Home(home)
    found = {name: Setting(key, key.default, "default") for name, key in KEYS.items()}
    found |= from_text(read_text(place.config_file), place.config_file)
    found |= from_variables(env)
    url = found["database.url"]
    if url.value.startswith("sqlite:///{home}"):
        here = url.value.replace("{home}", str(place.folder), 1)
        found["database.url"] = Setting(url.key, here, url.origin)
    return found


def from_variables(env: Mapping[str, str] | None = None) -> dict[str, Setting]:
    """Read the variables that override settings. An empty one is as good as none."""
    env = os.environ if env is None else env
    by_variable = {key.variable: key for key in KEYS.values()}
    found = {}
    for variable, text in env.items():
        if not variable.startswith(_PREFIX) or "__" not in variable:
            continue
        if variable not in by_variable:
            raise unknown_variable(variable)
        if text:
            key = by_variable[variable]
            value = checked(key, key.kind.parse(text), f"environment variable {variable}")
            found[key.name] = Setting(key, value, variable)
    return found


def from_text(text: str, path: Path) -> dict[str, Setting]:
    """Read the text of a file and check it; the path is for what is said about it."""
    root = parse(text, str(path))
    if root is None:
        return {}
    return {
        key.name: Setting(key, value, "file") for key, value in _section(root, "", str(path), path)
    }


def _section(node: Node, section: str, place: str, path: Path) -> Iterator[tuple[Key, Any]]:
    if not isinstance(node, MappingNode):
        raise not_a_section(section, place)
    seen = set()
    for member, value, line in members(node):
        here = f"{path}, line {line}"
        name = f"{section}.{member}" if section else member
        if member in seen:
            raise BadConfig(f"{here}: {name} is there twice", hint="Remove one of them.")
        seen.add(member)
        if "." in member and name in KEYS:
            raise with_a_dot(name, here)
        if name not in KEYS and name not in SECTIONS:
            raise unknown_key(name, here)
        if is_empty(value):
            continue
        if name in SECTIONS:
            yield from _section(value, name, here, path)
        else:
            yield KEYS[name], _value(KEYS[name], value, here)


def _value(key: Key, node: Node, place: str) -> Any:
    try:
        value = value_of(node)
    except ValueError:
        raise bad_value(key, node.value, place) from None
    return None if value is None else checked(key, value, place)


def checked(key: Key, value: object, place: str = "") -> Any:
    """Check a value as YAML gives it, or say what is allowed."""
    try:
        return key.kind.read(value)
    except ValueError:
        raise bad_value(key, value, place) from None


def read_text(path: Path) -> str:
    """Read the file as it is; nothing if it is not there."""
    try:
        with path.open("rb") as file:
            data = file.read(_TOO_LARGE + 1)
    except FileNotFoundError:
        return ""
    except NotADirectoryError as error:
        raise BadConfig(
            f"cannot read {path}: {error.strerror}", hint=private.what_to_do(error, path.parent)
        ) from error
    except OSError as error:
        raise BadConfig(f"cannot read {path}: {error.strerror}") from error
    if len(data) > _TOO_LARGE:
        raise BadConfig(f"{path} is too large to be a configuration")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadConfig(f"{path}, line {line}: this is not UTF-8 text") from None

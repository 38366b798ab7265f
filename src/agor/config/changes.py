"""One setting more, or one less, in the text of config.yaml.

The text is changed in place: comments, order, indentation and quotes of everything else stay as
they are, to the byte. What comes out is read back, and if it is not what was meant (values with
aliases, say) it is done the other way: by ruamel's round trip, which keeps comments and order but
may lay the text out anew.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

from ruamel.yaml import YAML

from agor.config.in_place import set_in_place, unset_in_place
from agor.config.refusal import not_a_section
from agor.config.yaml_text import values
from agor.errors import BadConfig


def with_value(text: str, path: Sequence[str], value: object, file: str) -> str:
    """Give the text with this setting in it. `file` is for errors."""
    wanted = values(text, file)
    _put(wanted, path, value, file)
    changed = set_in_place(text, path, _written(value))
    if changed is None or not _means(changed, wanted):
        tree = _round_trip().load(text) or {}
        _put(tree, path, value, file)
        changed = _dumped(tree)
    return changed


def without_value(text: str, path: Sequence[str], file: str) -> str:
    """Give the text without this setting, or as it is if it is not there."""
    wanted = values(text, file)
    if not _drop(wanted, path):
        return text
    changed = unset_in_place(text, path)
    if changed is None or not _means(changed, wanted):
        tree = _round_trip().load(text)
        _drop(tree, path)
        changed = _dumped(tree)
    return changed


def _means(text: str, wanted: dict[str, Any]) -> bool:
    """Tell whether a text has these values. An empty section is as good as none."""
    try:
        return bool(_settled(values(text, "")) == _settled(wanted))
    except BadConfig:
        return False


def _settled(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    inside = {name: _settled(value) for name, value in tree.items()}
    return {name: value for name, value in inside.items() if value not in (None, {})}


def _put(tree: Any, path: Sequence[str], value: object, file: str) -> None:
    for depth, name in enumerate(path[:-1], 1):
        if tree.get(name) is None:
            tree[name] = {}
        tree = tree[name]
        if not isinstance(tree, dict):
            raise not_a_section(".".join(path[:depth]), file)
    tree[path[-1]] = value


def _drop(tree: Any, path: Sequence[str]) -> bool:
    """Take a setting out; tells whether it was there."""
    for name in path[:-1]:
        tree = tree.get(name)
        if not isinstance(tree, dict):
            return False
    if path[-1] not in tree:
        return False
    del tree[path[-1]]
    return True


def _written(value: object) -> str:
    """Write a value down so that YAML reads the same again."""
    if isinstance(value, str) and _means(f"key: {value}\n", {"key": value}):
        return value
    return json.dumps(value, ensure_ascii=False)


def _round_trip() -> YAML:
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 4096
    return yaml


def _dumped(tree: Any) -> str:
    stream = io.StringIO()
    _round_trip().dump(tree, stream)
    return stream.getvalue()

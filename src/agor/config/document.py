"""The text of config.yaml: what stands where, and changes that touch nothing else.

A change replaces one value, adds one line or takes one out, in the text itself: comments, order,
indentation and quotes of everything else stay as they are, to the byte. Every change is read back,
and what is not as it was meant (values with anchors, settings in braces) is done the other way: by
ruamel's round trip, which keeps comments and order but may lay the text out anew.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

from agor.config.refusal import not_a_section, not_yaml
from agor.errors import BadConfig

_INDENT = 2
#: What the parser raises; ValueError for a number of ten thousand digits, for example.
_NOT_YAML = (YAMLError, RecursionError, ValueError)


def parse(text: str, file: str) -> MappingNode | None:
    """Find the sections of the text; None if there is nothing in it. `file` is for errors."""
    try:
        root: Node | None = _yaml().compose(text)
    except _NOT_YAML as error:
        raise not_yaml(error, file) from None
    if root is None or is_empty(root):
        return None
    if not isinstance(root, MappingNode):
        raise not_a_section("", file)
    return root


def members(node: MappingNode) -> Iterator[tuple[str, Node, int]]:
    """List what a section has: name, value, line. Names that are no text are given as text."""
    for key, value in node.value:
        yield str(getattr(key, "value", "?")), value, key.start_mark.line + 1


def value_of(node: Node) -> Any:
    """Make the value of a node; what YAML cannot make a value of is a ValueError."""
    try:
        return _yaml().constructor.construct_object(node, deep=True)
    except (YAMLError, RecursionError) as error:
        raise ValueError from error


def is_empty(node: Node) -> bool:
    """Tell whether nothing is written there."""
    return isinstance(node, ScalarNode) and str(node.tag).endswith(":null") and not node.value


def with_value(text: str, path: Sequence[str], value: object, file: str) -> str:
    """Give the text with this setting in it."""
    wanted = _values(text, file)
    _put(wanted, path, value, file)
    changed = _set_in_place(text, path, _written(value))
    if changed is None or not _means(changed, wanted):
        tree = _round_trip().load(text) or {}
        _put(tree, path, value, file)
        changed = _dumped(tree)
    return changed


def without_value(text: str, path: Sequence[str], file: str) -> str:
    """Give the text without this setting, or as it is if it is not there."""
    wanted = _values(text, file)
    if not _drop(wanted, path):
        return text
    changed = _unset_in_place(text, path)
    if changed is None or not _means(changed, wanted):
        tree = _round_trip().load(text)
        _drop(tree, path)
        changed = _dumped(tree)
    return changed


# ── in place ─────────────────────────────────────────────────────────────────────────────────────


def _set_in_place(text: str, path: Sequence[str], written: str) -> str | None:
    """Change the text at one place; None where this way does not know how."""
    root = _yaml().compose(text)
    end = "\r\n" if "\r\n" in text else "\n"
    section, depth, column, at = root, 0, 0, len(text)
    for depth, name in enumerate(path):
        if section is None or is_empty(section):
            break
        if not isinstance(section, MappingNode) or not section.value:
            return None
        found = next(((k, v) for k, v in section.value if k.value == name), None)
        if found is None and section.flow_style:
            return None
        column = section.value[0][0].start_mark.column
        if found is None:
            at = _line_after(text, _last_leaf(section)) if depth else len(text)
            break
        key, section = found
        if depth == len(path) - 1:
            return _replaced(text, key, section, written)
        column, at = column + _INDENT, _line_after(text, key)
    else:
        return None
    lines = [f"{' ' * (column + _INDENT * i)}{name}:" for i, name in enumerate(path[depth:])]
    before = text[:at] if not at or text[:at].endswith("\n") else text[:at] + end
    return f"{before}{end.join(lines)} {written}{end}{text[at:]}"


def _replaced(text: str, key: Node, value: Node, written: str) -> str | None:
    if not isinstance(value, ScalarNode) or value.start_mark.index < key.end_mark.index:
        # A list or a section; or an alias, which stands for something elsewhere.
        return None
    start, stop = value.start_mark.index, value.end_mark.index
    space = " " if text[start - 1] == ":" else ""
    return text[:start] + space + written + text[stop:]


def _unset_in_place(text: str, path: Sequence[str]) -> str | None:
    """Take the lines of a setting out, and those of sections that had nothing else in them."""
    node = _yaml().compose(text)
    above: list[tuple[Node, bool]] = []
    for name in path:
        if not isinstance(node, MappingNode) or node.flow_style:
            return None
        alone = len(node.value) == 1
        key, node = next((k, v) for k, v in node.value if k.value == name)
        above.append((key, alone))
    first, alone = above.pop()
    # Comments between a section's name and its only setting are kept, and the name with them.
    while alone and above and above[-1][0].start_mark.line == first.start_mark.line - 1:
        first, alone = above.pop()
    start = text.rfind("\n", 0, first.start_mark.index) + 1
    return text[:start] + text[_line_after(text, _last_leaf(node)) :]


def _line_after(text: str, node: Node) -> int:
    """Find where the next line begins after the end of a node."""
    stop: int = node.end_mark.index
    if stop and text[stop - 1] == "\n":
        return stop
    return text.find("\n", stop) + 1 or len(text)


def _last_leaf(node: Node) -> Node:
    """Find the last value of a section: the end of the section itself is after its comments."""
    last: Node = node
    while isinstance(last, MappingNode) and last.value and not last.flow_style:
        key, last = last.value[-1]
        if is_empty(last):
            last = key
    return last


# ── as values ────────────────────────────────────────────────────────────────────────────────────


def _values(text: str, file: str) -> dict[str, Any]:
    if parse(text, file) is None:
        return {}
    try:
        found: dict[str, Any] = _yaml().load(text)
    except _NOT_YAML as error:
        raise not_yaml(error, file) from None
    return found


def _means(text: str, wanted: dict[str, Any]) -> bool:
    """Tell whether a text has these values. An empty section is as good as none."""
    try:
        return bool(_settled(_values(text, "")) == _settled(wanted))
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


def _yaml() -> YAML:
    return YAML(typ="safe", pure=True)

"""The text of config.yaml as YAML sees it: sections, names and values, and where they stand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

from agor.config.refusal import not_a_section, not_yaml

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


def members(section: MappingNode) -> Iterator[tuple[str, Node, int]]:
    """List what a section has: name, value, line. Names that are no text are given as text."""
    for key, value in section.value:
        yield str(getattr(key, "value", "?")), value, key.start_mark.line + 1


def value_of(node: Node) -> Any:
    """Make the value of a node; what YAML cannot make a value of is a ValueError."""
    try:
        return _yaml().constructor.construct_object(node, deep=True)
    except (YAMLError, RecursionError) as error:
        raise ValueError from error


def values(text: str, file: str) -> dict[str, Any]:
    """Make the values of the whole text."""
    if parse(text, file) is None:
        return {}
    try:
        found: dict[str, Any] = _yaml().load(text)
    except _NOT_YAML as error:
        raise not_yaml(error, file) from None
    return found


def is_empty(node: Node) -> bool:
    """Tell whether nothing is written there."""
    return isinstance(node, ScalarNode) and str(node.tag).endswith(":null") and not node.value


def _yaml() -> YAML:
    return YAML(typ="safe", pure=True)

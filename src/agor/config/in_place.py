"""Changes in the text of config.yaml that touch nothing but one setting.

Each function gives the changed text, or None where it does not know how. None of them is sure of
itself: whoever calls reads the text again and looks whether it means what it should.
"""

from __future__ import annotations

from collections.abc import Sequence

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

from agor.config.yaml_text import is_empty, parse

_INDENT = 2


def set_in_place(text: str, path: Sequence[str], written: str) -> str | None:
    """Replace the value of a setting, or add the setting at the end of its section."""
    key: Node | None = None
    section: Node | None = parse(text, "")
    for depth, name in enumerate(path):
        index = _index(section, name)
        if index is None:
            return _added(text, key, section, path[depth:], written)
        assert isinstance(section, MappingNode)
        key, section = section.value[index]
    assert key is not None
    assert section is not None
    return _replaced(text, key, section, written)


def unset_in_place(text: str, path: Sequence[str]) -> str | None:
    """Take the lines of a setting out, and those of sections that had nothing else in them."""
    node: Node | None = parse(text, "")
    above: list[tuple[MappingNode, int]] = []
    for name in path:
        index = _index(node, name)
        if index is None or not isinstance(node, MappingNode):
            return None
        above.append((node, index))
        node = node.value[index][1]
    section, index = above.pop()
    if section.flow_style:
        return _taken_from_braces(text, section, index)
    first, value = section.value[index]
    end = _line_after(text, _end(text, first, value))
    # Comments between a section's name and its only setting are kept, and the name with them.
    while len(section.value) == 1 and above:
        section, index = above.pop()
        key = section.value[index][0]
        if key.start_mark.line != first.start_mark.line - 1:
            break
        first = key
    return text[: text.rfind("\n", 0, first.start_mark.index) + 1] + text[end:]


def _index(section: Node | None, name: str) -> int | None:
    if not isinstance(section, MappingNode):
        return None
    found = (index for index, (key, _) in enumerate(section.value) if key.value == name)
    return next(found, None)


def _replaced(text: str, key: Node, value: Node, written: str) -> str | None:
    after = _end_of_name(text, key)
    if is_empty(value):
        return f"{text[:after]} {written}{text[after:]}"
    if not isinstance(value, ScalarNode) or value.start_mark.index < after:
        # A list or a section; or an alias, which stands for something elsewhere.
        return None
    return text[: value.start_mark.index] + written + text[value.end_mark.index :]


def _added(
    text: str, key: Node | None, section: Node | None, names: Sequence[str], written: str
) -> str | None:
    """Add a setting to a section, which has the name `key` unless it is the whole file."""
    if section is None or is_empty(section):
        column = 0 if key is None else key.start_mark.column + _INDENT
        end = len(text) if key is None else key.end_mark.index
    elif not isinstance(section, MappingNode):
        return None
    elif section.flow_style:
        return _added_in_braces(text, section, names, written)
    else:
        column = section.value[0][0].start_mark.column
        # At the end of the file, or right after the last setting: before comments that follow it.
        end = len(text) if key is None else _end(text, *section.value[-1])
    at = _line_after(text, end)
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [f"{' ' * (column + _INDENT * depth)}{name}:" for depth, name in enumerate(names)]
    before = text[:at] if not at or text[at - 1] == "\n" else text[:at] + newline
    return f"{before}{newline.join(lines)} {written}{newline}{text[at:]}"


def _added_in_braces(
    text: str, section: MappingNode, names: Sequence[str], written: str
) -> str | None:
    for name in reversed(names[1:]):
        written = f"{{{name}: {written}}}"
    entry = f"{names[0]}: {written}"
    if not section.value:
        at = section.end_mark.index - 1
        return text[:at] + entry + text[at:]
    at = _end(text, *section.value[-1])
    return f"{text[:at]}, {entry}{text[at:]}"


def _taken_from_braces(text: str, section: MappingNode, index: int) -> str:
    key, value = section.value[index]
    start, end = key.start_mark.index, _end(text, key, value)
    if index + 1 < len(section.value):
        end = section.value[index + 1][0].start_mark.index
    elif index:
        start = _end(text, *section.value[index - 1])
    return text[:start] + text[end:]


def _end(text: str, key: Node, value: Node) -> int:
    """Find where a setting ends; what the parser calls the end is after comments that follow."""
    while isinstance(value, MappingNode) and value.value and not value.flow_style:
        key, value = value.value[-1]
    return _end_of_name(text, key) if is_empty(value) else int(value.end_mark.index)


def _end_of_name(text: str, key: Node) -> int:
    """Find where a name ends, with its colon."""
    return text.find(":", key.end_mark.index) + 1 or len(text)


def _line_after(text: str, index: int) -> int:
    """Find where the next line begins."""
    if index and text[index - 1] == "\n":
        return index
    return text.find("\n", index) + 1 or len(text)

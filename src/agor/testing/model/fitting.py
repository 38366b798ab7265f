"""An answer that fits a JSON schema, for calls that ask for one.

Agents make such calls for themselves, to choose a model for example, and ask again and again until
the answer can be read.
"""

from __future__ import annotations

from typing import Any

#: Schemas may be nested without end.
_DEEPEST = 20
_PLAIN: dict[str, Any] = {
    "string": "echo",
    "integer": 1,
    "number": 1,
    "boolean": False,
    "array": [],
}


def fitting(schema: Any, depth: int = 0) -> Any:
    """Make the smallest answer that fits: each member of an object, the first of a choice."""
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return None
    if isinstance(choice := schema.get("enum"), list) and choice:
        return choice[0]
    kind = str(schema.get("type", "")).lower()
    members = schema.get("properties")
    if kind == "object" or isinstance(members, dict):
        found = members if isinstance(members, dict) else {}
        return {name: fitting(each, depth + 1) for name, each in found.items()}
    return schema.get("minimum", _PLAIN.get(kind))

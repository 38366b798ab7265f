"""The base of every params and result on the wire, and the members that many of them have."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

Identifier = Annotated[str, Meta(min_length=1, max_length=256)]
Token = Annotated[str, Meta(min_length=1, max_length=1024)]

#: Members never shown: keys, and what people type or put into environments.
_SECRET = ("session_token", "api_key", "env", "data")


class Form(Struct, kw_only=True, gc=False, omit_defaults=True):
    """Base of all params and results; its repr, and so any log of it, hides secrets."""

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({', '.join(shown)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [
            (name, "…" if name in _SECRET else getattr(self, name))
            for name in self.__struct_fields__
        ]


class Nothing(Form):
    """No params, or no result worth the name."""

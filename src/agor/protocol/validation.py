"""Bytes to typed structures, at the edge, with errors that name the field.

params.task_id: required, but missing
params.cwd: expected `str`, got `int`
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec import Raw, Struct, inspect

from agor.errors import InvalidParams

P = TypeVar("P")
R = TypeVar("R")

#: What reading hostile bytes can raise: bad JSON or the wrong form, bad UTF-8, endless nesting.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

#: What comes after the params in the line of a call.
CLOSING = b"}\n"

_LONGEST_QUOTE = 100
_MISSING = re.compile(r"^Object missing required field `(?P<field>[^`]+)`$")
_PLACED = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Method(Generic[P, R]):
    """A call that is answered: its name, and the forms of its params and its result."""

    name: str
    params: type[P]
    result: type[R]

    def opening(self, request_id: int) -> bytes:
        """Spell the line of a request as far as its params."""
        return b'{"jsonrpc":"2.0","id":%d,%b' % (request_id, _call(self.name))


@dataclass(frozen=True, slots=True)
class Notice(Generic[P]):
    """A call that is not answered."""

    name: str
    params: type[P]
    #: The line of it as far as its params. Spelled once: there are many of them.
    opening: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "opening", b'{"jsonrpc":"2.0",' + _call(self.name))

    def line(self, params: P) -> bytes:
        """Spell one of them out."""
        return b"%b%b%b" % (self.opening, msgspec.json.encode(params), CLOSING)


@cache
def _call(name: str) -> bytes:
    return b'"method":%b,"params":' % msgspec.json.encode(name)


def quoted(text: object) -> str:
    """Quote what somebody sent, shortened: a message must not grow with it."""
    shown = repr(text)
    return shown if len(shown) <= _LONGEST_QUOTE else f"{shown[:_LONGEST_QUOTE]}…"


def name_the_field(error: Exception, root: str) -> str:
    """Say in one line what is wrong and where, with the path written as a reader would."""
    if isinstance(error, RecursionError):
        return f"{root}: nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"{root}: not UTF-8 at byte {error.start}"
    placed = _PLACED.match(str(error))
    what, path = (placed["what"], placed["path"] or "") if placed else (str(error), "")
    what = what if len(what) <= _LONGEST_QUOTE else f"{what[:_LONGEST_QUOTE]}…"
    missing = _MISSING.match(what)
    if missing:
        return f"{root}{path}.{missing['field']}: required, but missing"
    # "Expected" begins a sentence, "JSON" is a name.
    what = what if what[1:2].isupper() else what[:1].lower() + what[1:]
    return f"{root}{path}: {what}"


class ParamsReader(Generic[P]):
    """Turns raw params into a form.

    `decode` is the plain decoder, for params by name. What it refuses goes to `repair`, which also
    takes them by position, in the order of the fields, as JSON-RPC allows; left out or null they
    are the same as empty. `repair` says what is wrong if that does not help either.
    """

    def __init__(self, form: type[P]) -> None:
        self._form = form
        # `list[int]` and the like are params too, and no classes.
        origin: object = form
        self._by_name = isinstance(origin, type) and issubclass(origin, Struct)
        self.decode: Callable[[Raw | bytes], P] = msgspec.json.Decoder(form).decode

    def __call__(self, raw: Raw) -> P:
        """Read params of either kind."""
        try:
            return self.decode(raw)
        except UNREADABLE:
            return self.repair(raw)

    def repair(self, raw: Raw) -> P:
        """Read params that are not an object, or raise `InvalidParams` naming the field."""
        text = bytes(raw).strip(b" \t\r\n")
        if self._by_name and text in (b"", b"null"):
            text = b"{}"
        try:
            if self._by_name and text.startswith(b"["):
                text = self._name(msgspec.json.decode(text, type=list[Raw]))
            return self.decode(Raw(text))
        except UNREADABLE as error:
            raise InvalidParams(name_the_field(error, "params")) from None

    def _name(self, values: list[Raw]) -> bytes:
        names = cast("type[Struct]", self._form).__struct_encode_fields__
        if len(values) > len(names):
            raise InvalidParams(f"params: expected at most {len(names)} values, got {len(values)}")
        members = (
            b'"%b":%b' % (name.encode(), raw) for name, raw in zip(names, values, strict=False)
        )
        return b"{" + b",".join(members) + b"}"


_readers: dict[object, ParamsReader[Any]] = {}


def reader_of(form: type[P]) -> ParamsReader[P]:
    """Give the reader of a form, made once: to make one takes longer than many reads."""
    reader = _readers.get(form)
    if reader is None:
        reader = _readers[form] = ParamsReader(form)
    return reader


_raw_holders: dict[object, bool] = {}


def may_hold_raw(form: object) -> bool:
    """Tell whether values of a form can hold JSON that is written as it is, or anything at all."""
    known = _raw_holders.get(form)
    if known is None:
        kinds = (inspect.RawType, inspect.AnyType, inspect.CustomType)
        parts = _parts(inspect.type_info(form), set())
        known = _raw_holders[form] = any(isinstance(each, kinds) for each in parts)
    return known


def _parts(info: inspect.Type, seen: set[type]) -> Iterator[inspect.Type]:
    """Give a form and all that it is made of, each structure once."""
    yield info
    if isinstance(info, inspect.StructType):
        if info.cls in seen:
            return
        seen.add(info.cls)
    for name in info.__struct_fields__:
        value = getattr(info, name)
        for each in value if isinstance(value, tuple) else (value,):
            inner = each.type if isinstance(each, inspect.Field) else each
            if isinstance(inner, inspect.Type):
                yield from _parts(inner, seen)

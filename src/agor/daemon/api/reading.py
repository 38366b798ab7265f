"""Requests, from bytes to forms. What does not fit is refused with the name of the field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct, inspect

from agor.daemon.api.answers import Receive
from agor.errors import BadInput, TooLarge, Unprocessable
from agor.protocol.validation import UNREADABLE, name_the_field, quoted

#: A request that is too large is read on up to so much: who sends all of it before looking at the
#: answer, as most do, would not see the answer otherwise.
_READ_ON = 8
#: More parameters than any route has.
_MOST_PARAMETERS = 32
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_FLAGS = {"true": True, "false": False}
#: What messages about a form say before they repeat something of what was sent.
_QUOTES = re.compile(r"unknown field|[Ii]nvalid enum value|[Ii]nvalid value|\[\.\.\.\]")
_KEY = re.compile(rb"[!-~]{1,255}")

#: Headers that mean nothing if there are two of them.
_SINGLE = frozenset(
    (
        b"authorization", b"content-length", b"content-type", b"cookie", b"host",
        b"idempotency-key", b"last-event-id", b"origin", b"sec-fetch-site",
    )
)  # fmt: skip


class NoQuery(Struct, forbid_unknown_fields=True):
    """The query of a route that has none."""


def read_headers(raw: list[tuple[bytes, bytes]]) -> Mapping[bytes, bytes]:
    """Make the headers easy to look up."""
    headers = dict(raw)
    if len(headers) != len(raw):
        names = [name for name, _ in raw if name in _SINGLE]
        for name in names:
            if names.count(name) > 1:
                raise BadInput(f"the header {name.decode()} is there more than once")
    return headers


class QueryReader:
    """Reads the query of a route into its form."""

    def __init__(self, form: type[Any]) -> None:
        self._form = form
        info = inspect.type_info(form)
        assert isinstance(info, inspect.StructType)
        # A query is text; which of it are numbers, only the form knows.
        self._numbers = {field.name for field in info.fields if _is_number(field.type)}
        self._flags = {field.name for field in info.fields if _is_flag(field.type)}
        self._nothing = form()

    def __call__(self, query: bytes) -> Any:
        """Read it; raises `Unprocessable`."""
        if not query:
            return self._nothing
        values: dict[str, Any] = {}
        try:
            pairs = parse_qsl(
                query.decode("ascii"), keep_blank_values=True, strict_parsing=True,
                errors="strict", max_num_fields=_MOST_PARAMETERS,
            )  # fmt: skip
        except ValueError:
            raise Unprocessable("query: this is not name=value&name=value, in UTF-8") from None
        for name, value in pairs:
            if name in values:
                raise Unprocessable(f"query.{quoted(name)}: it is there twice")
            if name in self._numbers and _NUMBER.fullmatch(value):
                values[name] = int(value)
            else:
                values[name] = _FLAGS.get(value, value) if name in self._flags else value
        try:
            return msgspec.convert(values, self._form)
        except msgspec.ValidationError as error:
            raise Unprocessable(name_the_field(error, "query")) from None


def _is_number(kind: inspect.Type) -> bool:
    inner = _plain(kind)
    if isinstance(inner, inspect.UnionType):
        return any(map(_is_number, inner.types))
    return isinstance(inner, inspect.IntType)


def _is_flag(kind: inspect.Type) -> bool:
    return isinstance(_plain(kind), inspect.BoolType)


def _plain(kind: inspect.Type) -> inspect.Type:
    # A member with a description has it around its type.
    return kind.type if isinstance(kind, inspect.Metadata) else kind


class BodyReader:
    """Reads the body of a route into its form."""

    def __init__(self, form: type[Any], *, secret: bool = False) -> None:
        self._decode = msgspec.json.Decoder(form).decode
        self._secret = secret

    def __call__(self, body: bytes) -> Any:
        """Read it; raises `Unprocessable`."""
        try:
            return self._decode(body)
        except UNREADABLE as error:
            said = name_the_field(error, "body")
            if self._secret and _QUOTES.search(said):
                # A secret may stand where it does not belong, as a member's name for example.
                said = "body: there is something in it that this route does not take"
            raise Unprocessable(said) from None


def is_json(headers: Mapping[bytes, bytes]) -> bool:
    """Tell whether the body is said to be JSON, in UTF-8 as JSON has to be."""
    media, _, rest = headers.get(b"content-type", b"").lower().partition(b";")
    charset = rest.replace(b" ", b"").replace(b'"', b"")
    return media.strip() == b"application/json" and charset in (b"", b"charset=utf-8")


def idempotency_key(headers: Mapping[bytes, bytes]) -> str | None:
    """Take the key of a POST, if it has one."""
    key = headers.get(b"idempotency-key")
    if key is None:
        return None
    if _KEY.fullmatch(key) is None:
        raise Unprocessable("Idempotency-Key: expected 1 to 255 visible ASCII characters")
    return key.decode()


async def collect_body(receive: Receive, headers: Mapping[bytes, bytes], most: int) -> bytes | None:
    """Receive the whole body, within bounds; None if the client goes away meanwhile."""
    length = headers.get(b"content-length", b"0")
    # With this header the client waits for a word before it sends: no need to read on.
    if b"expect" in headers and length.isdigit() and int(length[:19]) > most:
        raise too_large(most)
    pieces: list[bytes] = []
    size = 0
    more = True
    while more and size <= most * _READ_ON:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        piece: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(piece)
        if size <= most:
            pieces.append(piece)
        else:
            pieces.clear()
    if size > most:
        raise too_large(most)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def too_large(most: int) -> TooLarge:
    """Say that a body is."""
    return TooLarge(f"the body is longer than {most} bytes")

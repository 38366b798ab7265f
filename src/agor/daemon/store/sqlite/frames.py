"""What goes between the daemon and the process that writes: MessagePack, each behind its length.

Pure: bytes to structures and back.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from agor.daemon.store.base import Write
from agor.daemon.store.sqlite.upkeep import Identities, Upkeep
from agor.errors import StoreDamaged, StoreError, StoreUnavailable, StoreUnusable

T = TypeVar("T")

_length = struct.Struct(">I")
_encode = msgspec.msgpack.Encoder().encode
_decode_write = msgspec.msgpack.Decoder(Write).decode


class Opening(Struct, frozen=True):
    """The first thing that the process is told."""

    path: bytes
    #: What the database and its log were when the daemon opened them.
    identities: Identities
    upkeep: Upkeep
    #: Whether the database could be written at last.
    available: bool


class Group(Struct, frozen=True, array_like=True, gc=False):
    """What is to be committed together. The number is the one of this group and no other."""

    number: int
    #: How many rows there are in it, and how many bytes, roughly.
    rows: int
    size: int
    writes: list[Write]


class Trouble(Struct, frozen=True, array_like=True):
    """An error of the store, on its way to whoever asked for the write."""

    kind: str
    message: str
    hint: str | None

    def error(self) -> StoreError:
        """Make it an error again."""
        return _KINDS[self.kind](self.message, hint=self.hint)


_KINDS: dict[str, type[StoreError]] = {
    kind.__name__: kind for kind in (StoreDamaged, StoreError, StoreUnavailable, StoreUnusable)
}


def trouble(error: StoreError) -> Trouble:
    """Spell an error."""
    return Trouble(type(error).__name__, error.message, error.hint)


class Ready(Struct, frozen=True, tag="ready"):
    """The database is open; `number` is that of the last commit in it."""

    number: int


class NotReady(Struct, frozen=True, tag="not ready"):
    """The database cannot be opened. The process ends after that."""

    trouble: Trouble


class Unreadable(Struct, frozen=True, tag="unreadable"):
    """There is something in the group that does not belong there; nothing of it was committed."""

    why: str


class Refusing(Struct, frozen=True, tag="refusing"):
    """A group is about to be committed without these of its writes, by place.

    Should the process die now, this is what would be known of them.
    """

    refused: dict[int, Trouble]


class Done(Struct, frozen=True, tag="done"):
    """What became of the group; `refused` is by place."""

    refused: dict[int, Trouble]
    #: Whether the database can be written, as far as is known.
    available: bool


class Availability(Struct, frozen=True, tag="availability"):
    """Whether the database can be written has changed, though nobody wrote."""

    available: bool


class Beat(Struct, frozen=True, tag="beat"):
    """A sign of life: the process runs, whatever it waits for."""


class Said(Struct, frozen=True, tag="said"):
    """Something for the log."""

    event: str
    members: dict[str, Any]


Answer = Ready | NotReady | Unreadable | Refusing | Done | Availability | Beat | Said


def frame(message: object) -> bytes:
    """Encode something, behind its length."""
    body = _encode(message)
    return _length.pack(len(body)) + body


def check_writes(writes: Sequence[Write]) -> dict[int, Exception]:
    """Tell which of them do not get through, by place, and why."""
    wrong: dict[int, Exception] = {}
    for place, write in enumerate(writes):
        try:
            _decode_write(_encode(write))
        except Exception as error:  # noqa: BLE001 - whatever is in a write, it is that one's fault
            wrong[place] = error
    return wrong


class Splitter(Generic[T]):
    """Takes bytes as they come, and gives the messages in them.

    One that is not as it should be raises `msgspec.ValidationError`, and is left out.
    """

    def __init__(self, kind: Any) -> None:
        self._decode = msgspec.msgpack.Decoder(kind).decode
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[T]:
        """Take some bytes; give each message that is whole now."""
        rest = self._rest
        rest += data
        while len(rest) >= _length.size:
            end = _length.size + _length.unpack_from(rest)[0]
            if len(rest) < end:
                return
            try:
                with memoryview(rest)[_length.size : end] as body:
                    message = self._decode(body)
            finally:
                del rest[:end]
            yield message

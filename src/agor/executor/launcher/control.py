"""The launcher's end of a conversation with the daemon: JSON-RPC, a packet each, with descriptors.

Written anew and not with the peer of `agor.rpc`: there is no event loop here, and descriptors come
along, which only a packet keeps together with its message.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import structlog
from msgspec import UNSET

from agor.errors import InvalidRequest, MethodNotFound
from agor.protocol.envelope import Answer, Failure, Message, RequestId, failure
from agor.protocol.launching import MAX_PACKET
from agor.protocol.validation import UNREADABLE, ParamsReader

log = structlog.get_logger("agor.launcher")

_decode = msgspec.json.Decoder(Message).decode
_encode = msgspec.json.Encoder().encode
#: Seconds that the daemon may take to read an answer.
_WRITE_TIMEOUT = 5.0

#: A method's params, and what to do with them and the descriptors that came along.
Handlers = Mapping[str, tuple[ParamsReader[Any], Callable[[Any, list[int]], object]]]


class Request:
    """One packet and the descriptors that came with it, which are closed after it was served."""

    def __init__(self, text: bytes, fds: list[int]) -> None:
        self.text = text
        self.fds = fds

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        for fd in self.fds:
            os.close(fd)


class Connection:
    """One daemon."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        sock.settimeout(_WRITE_TIMEOUT)

    def receive(self) -> Request | None:
        """Take the next packet, which is there already; none at the end."""
        try:
            text, fds, _, _ = socket.recv_fds(self._sock, MAX_PACKET, 64, socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return None
        if not text:
            return None
        return Request(text, fds)

    def send(self, packet: bytes) -> None:
        """Answer. Who does not read its answers gets none."""
        try:
            self._sock.sendall(packet)
        except OSError as error:
            log.warning("answer_lost", why=str(error))

    def close(self) -> None:
        """Hang up."""
        self._sock.close()


def answer(connection: Connection, request: Request, handlers: Handlers) -> None:
    """Carry out one request and answer it, whatever happens."""
    request_id: RequestId = None
    try:
        message = _decode(request.text)
        request_id = None if message.id is UNSET else message.id
        reply: Answer | Failure = Answer(request_id, _carry_out(message, request.fds, handlers))
    except UNREADABLE:
        reply = failure(request_id, InvalidRequest("not a message"))
    except Exception as error:  # noqa: BLE001 - whatever it was, the daemon must hear it
        log.warning("request_failed", why=str(error))
        reply = failure(request_id, error)
    connection.send(_encode(reply))


def _carry_out(message: Message, fds: list[int], handlers: Handlers) -> object:
    if message.id is UNSET or message.method is UNSET:
        raise InvalidRequest("a launcher takes requests only")
    if message.method not in handlers:
        raise MethodNotFound(f"a launcher has no method {message.method}")
    read, handle = handlers[message.method]
    return handle(read(message.params), fds)

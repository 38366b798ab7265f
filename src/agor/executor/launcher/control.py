"""The launcher's end of a conversation with the daemon: JSON-RPC, a packet each, with descriptors.

Written anew and not with the peer of `agor.rpc`: there is no event loop here, and descriptors come
along, which only a packet keeps together with its message.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import structlog
from msgspec import UNSET

from agor.errors import InvalidRequest, MethodNotFound
from agor.protocol.envelope import Answer, Message, RequestId, failure
from agor.protocol.launching import MAX_PACKET
from agor.protocol.validation import UNREADABLE, ParamsReader

log = structlog.get_logger("agor.launcher")

_decode = msgspec.json.Decoder(Message).decode
_encode = msgspec.json.Encoder().encode
#: Seconds that the daemon may take to read an answer.
_WRITE_TIMEOUT = 5.0

#: What a handler returns that will send its response later, through the request.
LATER: Final = object()


class Request:
    """One packet and the descriptors that came with it.

    Descriptors are closed after the request was served, unless the handler has taken them.
    """

    def __init__(
        self, connection: Connection, text: bytes, fds: list[int], *, truncated: bool
    ) -> None:
        self.text = text
        #: Whether descriptors were lost on the way, for want of room for more open files.
        self.truncated = truncated
        self._connection = connection
        self._id: RequestId = None
        self._fds = fds

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        for fd in self.take_descriptors():
            os.close(fd)

    def take_descriptors(self) -> list[int]:
        """Leave the descriptors to the caller, who closes them."""
        taken, self._fds = self._fds, []
        return taken

    def read(self) -> Message:
        """Decode the message, and note to which request the response belongs."""
        message = _decode(self.text)
        self._id = None if message.id is UNSET else message.id
        return message

    def respond(self, result: object) -> None:
        """Send the result."""
        self._connection.send(_encode(Answer(self._id, result)))

    def refuse(self, error: Exception) -> None:
        """Send an error instead of a result."""
        log.warning("request_failed", why=str(error))
        self._connection.send(_encode(failure(self._id, error)))


#: A method's params, and what to do with them and the request they came with.
Handlers = Mapping[str, tuple[ParamsReader[Any], Callable[[Any, Request], object]]]


class Connection:
    """One daemon."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        sock.settimeout(_WRITE_TIMEOUT)

    def receive(self) -> Request | None:
        """Take the next packet, which is there already; none at the end."""
        try:
            text, fds, flags, _ = socket.recv_fds(
                self._sock, MAX_PACKET, 64, socket.MSG_CMSG_CLOEXEC
            )
        except OSError:
            return None
        if not text:
            return None
        return Request(self, text, fds, truncated=bool(flags & socket.MSG_CTRUNC))

    def send(self, packet: bytes) -> None:
        """Answer. Who does not read its answers gets none."""
        try:
            self._sock.sendall(packet)
        except OSError as error:
            log.warning("answer_lost", why=str(error))

    def is_hung_up(self) -> bool:
        """Tell whether the daemon has closed its end."""
        poll = select.poll()
        poll.register(self._sock, 0)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Hang up."""
        self._sock.close()


def serve(request: Request, handlers: Handlers) -> None:
    """Carry out one request and send its response, whatever happens."""
    with request:
        try:
            result = _carry_out(request, handlers)
        except UNREADABLE:
            request.refuse(InvalidRequest("not a message"))
        except Exception as error:  # noqa: BLE001 - whatever it was, the daemon must get a response
            request.refuse(error)
        else:
            if result is not LATER:
                request.respond(result)


def _carry_out(request: Request, handlers: Handlers) -> object:
    message = request.read()
    if message.id is UNSET or message.method is UNSET:
        raise InvalidRequest("a launcher takes requests only")
    if message.method not in handlers:
        raise MethodNotFound(f"a launcher has no method {message.method}")
    read, handle = handlers[message.method]
    return handle(read(message.params), request)

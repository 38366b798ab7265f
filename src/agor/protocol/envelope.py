"""The JSON-RPC 2.0 envelope: what a line says before anybody knows its method.

Incoming lines are one `Message`, with the payloads left as raw bytes: who understands the method
decodes them, and what is only passed on is never decoded at all. Outgoing answers are one of two
small structures. Their `jsonrpc` member is a tag, so it is written first and costs no field. Calls
are spelled by their method (`validation`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from agor.errors import RPC_ERRORS, AgorError, HandlerFailed, InternalError, InvalidResult, RpcError

#: Ids are echoed, so they must survive encoding: 64-bit integers and strings of sane length.
IntegerId = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
StringId = Annotated[str, Meta(max_length=256)]
RequestId = int | str | None

ABSENT = Raw()

#: The caller of a request tells with this notification that it no longer waits for the answer.
#: The name is the one language servers use; `$/` marks what the peer itself handles.
CANCEL_REQUEST = "$/cancelRequest"


class Message(Struct, gc=False):
    """Any single incoming message. Without `method` it is an answer to one of our requests."""

    jsonrpc: Literal["2.0"]
    id: IntegerId | StringId | UnsetType | None = UNSET
    method: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    params: Raw = ABSENT
    result: Raw = ABSENT
    error: Raw = ABSENT


class Answer(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    """The good end of a request."""

    id: RequestId
    result: Any


class Failure(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    """The bad end of a request. Its id is null where none could be read."""

    id: RequestId
    error: ErrorObject


class ErrorObject(Struct, gc=False, omit_defaults=True):
    """What went wrong: a number for programs, a sentence for people."""

    code: int
    message: str
    data: ErrorData | Any = None


class ErrorData(Struct, gc=False, omit_defaults=True):
    """The word behind the number, and what the reader can do. Never a stack trace."""

    code: str
    hint: str | None = None


class CancelRequest(Struct, gc=False):
    """The params of `$/cancelRequest`."""

    id: IntegerId | StringId


_encoder = msgspec.json.Encoder()
_decode_error = msgspec.json.Decoder(ErrorObject).decode


#: Render answers, a line each with its newline. For one, too, it is the fastest way.
encode_lines: Callable[[Sequence[Any]], bytes] = _encoder.encode_lines


def failure(request_id: RequestId, error: BaseException) -> Failure:
    """Put an exception into words that may leave this process.

    Only our own errors speak for themselves. Anything else is a bug: its message may hold what the
    other end must not see, so it stays in the log.
    """
    if isinstance(error, RpcError):
        number, word, message, hint = error.rpc_code, error.code, error.message, error.hint
    elif isinstance(error, AgorError):
        number, word = HandlerFailed.rpc_code, error.code
        message, hint = error.message, error.hint
    else:
        number, word = InternalError.rpc_code, InternalError.code
        message, hint = "Internal error", "The log of the process that failed has the details."
    return Failure(request_id, ErrorObject(number, message, ErrorData(word, hint)))


def revive_error(raw: Raw | bytes) -> RpcError:
    """Turn the `error` member of an answer back into the exception that it stands for."""
    try:
        error = _decode_error(raw)
    except (msgspec.DecodeError, RecursionError):
        return InvalidResult("the answer's error member is not a JSON-RPC error object")
    kind = RPC_ERRORS.get(error.code, RpcError)
    data = error.data if isinstance(error.data, dict) else {}
    word, hint = data.get("code"), data.get("hint")
    return kind(
        error.message,
        hint=hint if isinstance(hint, str) else None,
        code=word if isinstance(word, str) else None,
        rpc_code=error.code,
    )

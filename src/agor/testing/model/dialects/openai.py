"""What OpenAI's two APIs have in common: how they refuse a call."""

from __future__ import annotations

from typing import Any

from agor.testing.model.dialects.base import ErrorForm, Faults, Refused, advice
from agor.testing.model.script import Error, ErrorKind

FAULTS: Faults = {
    "bad_key": ErrorForm(401, "invalid_request_error", "Incorrect API key provided."),
    "forbidden": ErrorForm(
        403, "invalid_request_error", "You are not allowed to sample from this model."
    ),
    "not_found": ErrorForm(404, "invalid_request_error", "The model does not exist."),
    "bad_request": ErrorForm(400, "invalid_request_error", "The request is not valid."),
    "context_full": ErrorForm(
        400,
        "invalid_request_error",
        "Your input exceeds the context window of this model. Please adjust your input and try "
        "again.",
    ),
    "quota": ErrorForm(
        429,
        "insufficient_quota",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    "rate_limit": ErrorForm(429, "requests", "Rate limit reached for requests."),
    "server_error": ErrorForm(
        500, "server_error", "The server had an error while processing your request."
    ),
    "overloaded": ErrorForm(
        503, "server_error", "The server is currently overloaded. Please try again later."
    ),
}
#: The member `code` of an error, which some have beside their type.
_CODES: dict[ErrorKind, str] = {
    "bad_key": "invalid_api_key",
    "not_found": "model_not_found",
    "context_full": "context_length_exceeded",
    "quota": "insufficient_quota",
    "rate_limit": "rate_limit_exceeded",
    "server_error": "server_error",
    "overloaded": "server_is_overloaded",
}


def refuse(error: Error) -> Refused:
    """Refuse a call."""
    fault = FAULTS[error.kind]
    document = {
        "error": {
            "message": error.message or fault.message,
            "type": fault.word,
            "param": None,
            "code": _CODES.get(error.kind),
        }
    }
    return Refused(error.status or fault.status, document, advice(error))


def in_response(error: Error) -> dict[str, Any]:
    """Say what became of a response that failed on the way."""
    told = refuse(error).document["error"]
    message = told["message"]
    if error.retry_after is not None:
        message += f" Please try again in {error.retry_after:g}s."
    return {"code": told["code"] or "invalid_prompt", "message": message}

"""How Gemini refuses a call: in the form of all of Google's APIs."""

from __future__ import annotations

from typing import Any

from agor.testing.model.dialects.base import ErrorForm, Faults, Refused, advice
from agor.testing.model.script import Error, ErrorKind

FAULTS: Faults = {
    "bad_key": ErrorForm(
        400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."
    ),
    "forbidden": ErrorForm(403, "PERMISSION_DENIED", "The caller does not have permission"),
    "not_found": ErrorForm(404, "NOT_FOUND", "The model is not found for API version v1beta."),
    "bad_request": ErrorForm(400, "INVALID_ARGUMENT", "Request contains an invalid argument."),
    "context_full": ErrorForm(
        400,
        "INVALID_ARGUMENT",
        "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
    ),
    "quota": ErrorForm(
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    "rate_limit": ErrorForm(
        429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (check quota)."
    ),
    "server_error": ErrorForm(500, "INTERNAL", "An internal error has occurred. Please retry."),
    "overloaded": ErrorForm(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
}
_RPC = "type.googleapis.com/google.rpc"


#: What Google says beside the message, by which callers tell one error from another.
_DETAILS: dict[ErrorKind, dict[str, Any]] = {
    "bad_key": {
        "@type": f"{_RPC}.ErrorInfo",
        "reason": "API_KEY_INVALID",
        "domain": "googleapis.com",
        "metadata": {"service": "generativelanguage.googleapis.com"},
    },
    "quota": {
        "@type": f"{_RPC}.QuotaFailure",
        "violations": [
            {
                "quotaMetric": "generativelanguage.googleapis.com/generate_content_requests",
                "quotaId": "GenerateRequestsPerDayPerProjectPerModel",
            }
        ],
    },
}


def refuse(error: Error) -> Refused:
    """Refuse a call."""
    form = FAULTS[error.kind]
    details = [_DETAILS[error.kind]] if error.kind in _DETAILS else []
    if error.retry_after is not None:
        details.append({"@type": f"{_RPC}.RetryInfo", "retryDelay": f"{error.retry_after:g}s"})
    status = error.status or form.status
    told = {"code": status, "message": error.message or form.message, "status": form.word}
    document = {"error": told | {"details": details} if details else told}
    return Refused(status, document, advice(error))

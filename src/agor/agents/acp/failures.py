"""What the refusals of ACP agents mean. They come as numbers and words of all kinds. Pure.

Most agents pass on what their provider said, somewhere in the message or in the data beside it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from agor.agents.provider import BY_STATUS, provider_error
from agor.errors import (
    AgentFailed,
    AgorError,
    BadApiKey,
    ContextFull,
    NoSuchModel,
    ProviderFailed,
    ProviderOverloaded,
    QuotaExhausted,
    RateLimited,
)

if TYPE_CHECKING:
    from acp import RequestError

_AUTH_REQUIRED = -32000
#: What providers say, in the order of how sure a sign it is.
_WORDS: tuple[tuple[str, type[ProviderFailed]], ...] = (
    ("API_KEY_INVALID|api key not valid|authentication_(?:error|failed)", BadApiKey),
    ("PERMISSION_DENIED", BadApiKey),
    ("(?:invalid|incorrect).{0,10}api.?key", BadApiKey),
    ("insufficient_quota|credit balance|billing_error|PerDay|daily quota", QuotaExhausted),
    ("rate.?limit|RESOURCE_EXHAUSTED|too many requests", RateLimited),
    ("overloaded|UNAVAILABLE", ProviderOverloaded),
    ("prompt is too long|context.?(?:length|window)|input token count", ContextFull),
    ("maximum context|maximum number of tokens", ContextFull),
    ("model.{0,80}not.found|no such model|not_found_error", NoSuchModel),
)
_OTHERS = "api_error|server_error|internal server error"
#: A status in words: "API Error: 401 …", "status 429", "got status: UNAVAILABLE … code: 503".
_STATUS = re.compile(r"(?:error|status|code|http)\W{0,6}(?P<status>[45]\d\d)\b", re.IGNORECASE)


def refusal(error: RequestError, name: str, credential: str) -> AgorError:
    """Make our error of an agent's, with the provider's reason if there is one."""
    words = told(error)
    if error.code == _AUTH_REQUIRED and "auth" in words.lower():
        return provider_error(BadApiKey, words, credential)
    if kind := kind_of(words, error.code):
        return provider_error(kind, words, credential)
    return AgentFailed(f"{name}: {words}"[:2000])


def kind_of(words: str, code: int = 0) -> type[ProviderFailed] | None:
    """Find out which kind of a provider's refusal this is, if it is one."""
    for pattern, kind in _WORDS:
        if re.search(pattern, words, re.IGNORECASE):
            return kind
    found = _STATUS.search(words)
    status = code if 400 <= code < 600 else int(found["status"]) if found else 0
    if status in BY_STATUS:
        return BY_STATUS[status]
    if status >= 500 or re.search(_OTHERS, words, re.IGNORECASE):
        return ProviderFailed
    return None


def told(error: RequestError) -> str:
    """Put an error's message and its data together."""
    data = error.data
    if isinstance(data, dict):
        texts = [value for value in data.values() if isinstance(value, str)]
        data = " ".join(texts) if texts else json.dumps(data) if data else ""
    return " ".join(part for part in (str(error), str(data or "")) if part)

"""What a provider's refusal means, in words of ours: one table from HTTP statuses."""

from __future__ import annotations

from collections.abc import Mapping

from agor.errors import (
    BadApiKey,
    ContextFull,
    NoSuchModel,
    ProviderFailed,
    ProviderOverloaded,
    QuotaExhausted,
    RateLimited,
)

#: Characters of a provider's own words that are passed on.
_LONGEST = 500

BY_STATUS: Mapping[int, type[ProviderFailed]] = {
    401: BadApiKey,
    402: QuotaExhausted,
    403: BadApiKey,
    404: NoSuchModel,
    413: ContextFull,
    429: RateLimited,
    503: ProviderOverloaded,
    529: ProviderOverloaded,
}
_SAID: Mapping[type[ProviderFailed], str] = {
    BadApiKey: "the provider does not take the key",
    RateLimited: "the provider was asked for too much at once",
    QuotaExhausted: "nothing is left of what this account may use",
    ProviderOverloaded: "the provider is too busy",
    ContextFull: "the conversation is longer than the model can hold",
    NoSuchModel: "the provider has no such model",
    ProviderFailed: "the provider could not answer",
}
_HINTS: Mapping[type[ProviderFailed], str] = {
    RateLimited: "Wait a little, then prompt again.",
    QuotaExhausted: "Look at the account's plan and billing.",
    ProviderOverloaded: "Wait a little, then prompt again.",
    ContextFull: "Begin another session, or choose a model that holds more.",
    NoSuchModel: "Choose another model.",
    ProviderFailed: "Prompt again; if it stays so, look at the provider's status page.",
}


def provider_error(
    kind: type[ProviderFailed] | int | None, words: str, credential: str
) -> ProviderFailed:
    """Make the error of a refusal, from its kind or HTTP status and the provider's own words."""
    form = kind if isinstance(kind, type) else BY_STATUS.get(kind or 0, ProviderFailed)
    own = " ".join(words.split())[:_LONGEST]
    message = f"{_SAID[form]}: {own}" if own else _SAID[form]
    hint = _HINTS.get(form) or f"Set another with `agor credential set {credential}`."
    return form(message, hint=hint)

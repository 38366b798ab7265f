"""What Codex says of a provider that does not answer, in words of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agor.agents.provider import BY_STATUS, provider_error
from agor.errors import (
    AgentFailed,
    BadApiKey,
    ContextFull,
    NoSuchModel,
    ProviderFailed,
    ProviderOverloaded,
    QuotaExhausted,
    RateLimited,
)

_BY_NAME: Mapping[str, type[ProviderFailed]] = {
    "contextWindowExceeded": ContextFull,
    "usageLimitExceeded": QuotaExhausted,
    "sessionBudgetExceeded": QuotaExhausted,
    "rateLimitExceeded": RateLimited,
    "serverOverloaded": ProviderOverloaded,
    "flexUnavailable": ProviderOverloaded,
    "policyCapacityUnavailable": ProviderOverloaded,
    "modelNotFound": NoSuchModel,
    "unauthorized": BadApiKey,
}
#: What is Codex's own trouble and not the provider's.
_OWN = frozenset({"sandboxError", "threadRollbackFailed", "tooManyDenials"})
#: Refusals that trying again cannot change.
_SURE = (BadApiKey, NoSuchModel, ContextFull, QuotaExhausted)


def fault_of(error: Mapping[str, Any] | None, key: str, credential: str) -> AgentFailed:
    """Make our error of Codex's."""
    if error is None:
        return AgentFailed("codex gave up and did not say why")
    words = str(error.get("additionalDetails") or error.get("message") or "")
    words = words.replace(key, "…") if key else words
    info = error.get("codexErrorInfo")
    if isinstance(info, str) and info in _OWN:
        return AgentFailed(f"codex: {words}")
    return provider_error(_kind(info), words, credential)


def is_sure(fault: AgentFailed) -> bool:
    """Tell whether trying again is in vain."""
    return isinstance(fault, _SURE)


def _kind(info: object) -> type[ProviderFailed]:
    if isinstance(info, str):
        return _BY_NAME.get(info, ProviderFailed)
    if isinstance(info, dict):
        for detail in info.values():
            status = detail.get("httpStatusCode") if isinstance(detail, dict) else None
            return BY_STATUS.get(status or 0, ProviderFailed)
    return ProviderFailed

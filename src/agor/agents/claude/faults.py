"""What Claude Code says of a provider that refuses, in our words.

A provider's refusal is retried by Claude itself, ten times over some minutes. That is right when it
is busy; a key that is not taken is not taken the tenth time either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from claude_agent_sdk import ResultMessage

from agor.agents.provider import provider_error
from agor.errors import AgentFailed, AgorError, ContextFull, ProviderFailed, QuotaExhausted

#: Statuses that no retry will change.
_FINAL = frozenset({401, 402, 403})
#: Claude's own words for refusals that share a status with others.
_BY_WORDS: Mapping[str, type[ProviderFailed]] = {
    "prompt is too long": ContextFull,
    "context limit": ContextFull,
    "input is too long": ContextFull,
    "credit balance is too low": QuotaExhausted,
}


def fault_of_retry(data: Mapping[str, Any], credential: str) -> AgorError | None:
    """Tell whether there is no use in waiting for a retry that was announced."""
    status = data.get("error_status")
    return provider_error(status, _words(data), credential) if status in _FINAL else None


def retry_in_words(data: Mapping[str, Any]) -> str:
    """Tell of a retry, for people who wait for it."""
    seconds = (data.get("retry_delay_ms") or 0) / 1000
    return (
        f"the provider could not answer ({_words(data)}): attempt {data.get('attempt')} of "
        f"{data.get('max_retries')} failed, the next comes in {seconds:.1f} s"
    )


def fault_of_result(result: ResultMessage, credential: str) -> AgorError | None:
    """Tell why a turn failed, if it did."""
    if not result.is_error:
        return None
    words = "; ".join(result.errors or []) or result.result or result.subtype
    lower = words.lower()
    for sign, kind in _BY_WORDS.items():
        if sign in lower:
            return provider_error(kind, words, credential)
    if result.api_error_status is not None or lower.startswith("api error"):
        return provider_error(result.api_error_status, words, credential)
    return AgentFailed(f"Claude Code gave up: {words}")


def _words(data: Mapping[str, Any]) -> str:
    kind = str(data.get("error") or "unknown").replace("_", " ")
    status = data.get("error_status")
    return kind if status is None else f"{kind}, status {status}"

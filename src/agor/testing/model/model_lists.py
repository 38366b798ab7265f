"""The lists of models, as each provider gives them. Any other model can be asked as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agor.testing.model.dialects.base import Dialect

_MADE = "2026-01-01T00:00:00Z"
_MADE_SECONDS = 1767225600
_CONTEXT = 200_000
_LONGEST_ANSWER = 64_000


def list_models(dialect: Dialect, names: Sequence[str]) -> Any:
    """Give the list."""
    models = [describe_model(dialect, name) for name in names]
    if dialect.name == "gemini":
        return {"models": models}
    if dialect.name == "anthropic":
        first, last = (names[0], names[-1]) if names else (None, None)
        return {"data": models, "has_more": False, "first_id": first, "last_id": last}
    return {"object": "list", "data": models}


def describe_model(dialect: Dialect, name: str) -> Any:
    """Give one of them."""
    if dialect.name == "gemini":
        return {
            "name": name if name.startswith("models/") else f"models/{name}",
            "version": "001",
            "displayName": name,
            "inputTokenLimit": _CONTEXT,
            "outputTokenLimit": _LONGEST_ANSWER,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        }
    if dialect.name == "anthropic":
        return {"type": "model", "id": name, "display_name": name, "created_at": _MADE}
    return {"id": name, "object": "model", "created": _MADE_SECONDS, "owned_by": "agor"}

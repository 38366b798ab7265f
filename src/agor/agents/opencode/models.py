"""Whose model it is: the name says it (`anthropic/claude-…`), and so which key is needed. Pure."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from agor.errors import NoSuchModel

#: By the key that somebody has: the model when none is named, in the order in which keys are tried.
DEFAULTS = {
    "ANTHROPIC_API_KEY": "anthropic/claude-sonnet-4-5",
    "OPENAI_API_KEY": "openai/gpt-5.5",
    "GEMINI_API_KEY": "google/gemini-2.5-pro",
}
#: What stands behind the address of a provider, as OpenCode wants it. Addresses are kept as each
#: provider's own agent wants them.
_VERSIONS = {"anthropic": "/v1", "openai": "", "google": "/v1beta"}
_NAME = re.compile(
    r"\A(?P<provider>[A-Za-z0-9][A-Za-z0-9._-]{0,63})/(?P<model>[A-Za-z0-9._:/@+-]{1,256})\Z"
)


class Model(Struct, frozen=True):
    """A model of a provider."""

    provider: str
    name: str

    @property
    def full_name(self) -> str:
        """Its name, as OpenCode has it."""
        return f"{self.provider}/{self.name}"

    @property
    def credential(self) -> str:
        """The name of the key that it needs."""
        if self.provider == "google":
            return "GEMINI_API_KEY"
        return re.sub(r"[^A-Z0-9]", "_", self.provider.upper()) + "_API_KEY"


def parse(name: str) -> Model:
    """Read the name of a model."""
    found = _NAME.match(name)
    if found is None:
        raise NoSuchModel(
            f"OpenCode has no model {name[:200]!r}: its models are named with their provider",
            hint=f"For instance: {', '.join(DEFAULTS.values())}.",
        )
    return Model(found["provider"], found["model"])


def provider_settings(provider: str, base_url: str | None, key: str) -> dict[str, Any]:
    """Say how a provider is reached; `key` is what OpenCode replaces by the key."""
    options = {"apiKey": key}
    settings: dict[str, Any] = {"options": options}
    if base_url is not None:
        version = _VERSIONS.get(provider, "")
        address = base_url.rstrip("/")
        options["baseURL"] = address if address.endswith(version) else address + version
        if provider not in _VERSIONS:
            # Nearly all others can be spoken to as if they were OpenAI.
            settings["npm"] = "@ai-sdk/openai-compatible"
    return settings

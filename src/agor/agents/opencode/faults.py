"""What goes wrong between OpenCode and a provider, from its log and its record.

OpenCode tries again on its own, for more than a minute, or for as long as the provider says, be it
hours; over ACP it says nothing of it. Its log does, for each try.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

from agor.agents.acp.failures import kind_of
from agor.agents.provider import BY_STATUS, provider_error
from agor.agents.turn import Tell
from agor.errors import (
    BadApiKey,
    ContextFull,
    NoSuchModel,
    ProviderFailed,
    QuotaExhausted,
)
from agor.protocol.events import Log

#: Tries that fail one after the other until the turn does.
_MOST_TRIES = 4
#: Seconds to wait after a try that failed; a provider may ask for hours.
_LONGEST_WAIT = 300.0
#: Bytes of a line that are looked at.
_LONGEST_LINE = 64 * 1024
#: What no second try can make good.
_SURE = (BadApiKey, QuotaExhausted, ContextFull, NoSuchModel)
_LINE = re.compile(
    r'message="stream error".* session\.id=(?P<session>\S+) small=false'
    r'.* error\.error="(?P<words>(?:[^"\\]|\\.)*)"'
)
_KIND = re.compile(r"^AI_\w+: ")


class Faults:
    """Reads the log of one turn, and says when it is enough."""

    def __init__(
        self,
        session_id: str,
        credential: str,
        progress: Callable[[], int],
        longest_wait: float = _LONGEST_WAIT,
    ) -> None:
        self._session_id = session_id
        self._credential = credential
        #: How much the agent has said: if that grows, a try did not fail.
        self._progress = progress
        self._reached = progress()
        self._longest_wait = longest_wait
        self._rest = b""
        self._heard: list[str] = []
        self._news = asyncio.Event()

    def hear(self, data: bytes) -> None:
        """Take a piece of the log."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[:_LONGEST_LINE]
        for line in lines:
            found = _LINE.search(line.decode(errors="replace"))
            if found is not None and found["session"] == self._session_id:
                self._forget_past()
                self._heard.append(_KIND.sub("", found["words"].replace('\\"', '"')))
                self._news.set()

    def _forget_past(self) -> None:
        if self._progress() != self._reached:
            self._heard.clear()
            self._reached = self._progress()

    async def give_up(self, tell: Tell) -> ProviderFailed:
        """Tell of tries that failed, until there is no sense in another."""
        while True:
            try:
                async with asyncio.timeout(self._longest_wait if self._heard else None):
                    await self._news.wait()
            except TimeoutError:
                self._forget_past()
                if self._heard:
                    return self._fault()
                continue
            self._news.clear()
            fault = self._fault()
            if isinstance(fault, _SURE) or len(self._heard) >= _MOST_TRIES:
                return fault
            await tell(Log("warning", f"trying again: {fault.message}"))

    def _fault(self) -> ProviderFailed:
        words = self._heard[-1]
        return provider_error(kind_of(words) or ProviderFailed, words, self._credential)


def recorded_fault(error: dict[str, Any] | None, credential: str) -> ProviderFailed | None:
    """Read the error with which a message ended, if it is one of the provider."""
    data = (error or {}).get("data")
    if error is None or not isinstance(data, dict):
        return None
    words = str(data.get("message", ""))
    body = str(data.get("responseBody") or "")
    match error.get("name"):
        case "ContextOverflowError":
            return provider_error(ContextFull, words, credential)
        case "ProviderAuthError":
            return provider_error(BadApiKey, words, credential)
        case "APIError":
            status = data.get("statusCode")
            known = BY_STATUS.get(status) if isinstance(status, int) else None
            kind = kind_of(f"{words} {body}") or known or ProviderFailed
            return provider_error(kind, words, credential)
        case _ if words.startswith('"undefined/'):
            return NoSuchModel(
                "OpenCode does not know the address of this model's provider",
                hint=f"Keep it with the key: `agor credential set {credential} --base-url …`.",
            )
    return None

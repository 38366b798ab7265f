"""Who somebody is, as they are told themselves."""

from __future__ import annotations

import msgspec

from agor.daemon.services.people.accounts import shown
from agor.daemon.services.people.api_tokens import ApiTokens
from agor.daemon.services.people.people import People
from agor.daemon.services.people.sign_ins import SignIns
from agor.daemon.services.principal import Principal
from agor.protocol.people import Me, Way


class Identity:
    """Tells people who they are, and how they have shown it."""

    def __init__(self, people: People, tokens: ApiTokens, sign_ins: SignIns) -> None:
        self._people = people
        self._tokens = tokens
        self._sign_ins = sign_ins

    def __call__(self, who: Principal) -> Me:
        """Tell."""
        way, expires_at = self._way(who.via)
        user = shown(self._people.get(who.user_id))
        return Me(**msgspec.structs.asdict(user), via=way, expires_at=expires_at)

    def _way(self, via: str | None) -> tuple[Way, int | None]:
        if via is None:
            return "local_token", None
        token = self._tokens.get(via)
        if token is not None:
            return "api_token", token.expires_at
        sign_in = self._sign_ins.get(via)
        return "sign_in", None if sign_in is None else sign_in.expires_at

"""Which session is meant: by its id, the beginning of one, or the last one of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agor.cli.asking import at_most
from agor.errors import BadInput, NotFound
from agor.protocol.api import Session
from agor.protocol.validation import quoted

if TYPE_CHECKING:
    from agor.client import Client

#: Ids begin with the time: fewer characters would mean too many sessions.
_SHORTEST = 4
#: The newest ones are looked through.
_MOST = 2000
_WHOLE = 36
_HINT = "`agor session list` lists those there are."


async def find(client: Client, named: str | None) -> Session:
    """Find a session; raises `NotFound`, or `BadInput` if several are meant."""
    if named is None:
        return await _last_here(client, Path.cwd())
    if len(named) >= _WHOLE:
        return await client.session(named)
    if len(named) < _SHORTEST:
        raise BadInput(f"{quoted(named)} is too short for an id", hint=_HINT)
    found = [each for each in await _newest(client) if each.session_id.startswith(named.lower())]
    if not found:
        raise NotFound(f"there is no session {quoted(named)}", hint=_HINT)
    if len(found) > 1:
        ids = "".join(f"\n{each.session_id}  {each.title or ''}" for each in found[:10])
        raise BadInput(f"{len(found)} sessions begin with {named}", hint=f"Say more of it:{ids}")
    return found[0]


async def _newest(client: Client) -> list[Session]:
    return await at_most(_MOST, client.sessions())


async def _last_here(client: Client, folder: Path) -> Session:
    for session in await _newest(client):
        if folder.is_relative_to(session.workspace):
            return session
    raise NotFound(f"there was no session in {folder} yet", hint=f"Say which one is meant. {_HINT}")


def short_ids(sessions: list[Session]) -> dict[str, str]:
    """Shorten ids as far as they stay different from each other, and to a time at least."""
    ids = [session.session_id for session in sessions]
    for length in (13, 18, 23):
        short = {each: each[:length] for each in ids}
        if len(set(short.values())) == len(short):
            return short
    return {each: each for each in ids}

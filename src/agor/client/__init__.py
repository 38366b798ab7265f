"""A client of the daemon: typed, async, and patient with a daemon that is restarted.

    from agor.client import Client

    async with Client.local() as client:
        session = await client.create_session("claude", "/work/project")
        accepted = await client.prompt(session.session_id, "hello there")
        async with client.follow(session.session_id) as feed:
            async for event in feed: …

What the daemon refuses is raised as the error of `agor.errors` that it was there.
"""

from __future__ import annotations

from agor.client.client import Client
from agor.client.feed import Feed
from agor.client.terminals import AttachedTerminal

__all__ = ["AttachedTerminal", "Client", "Feed"]

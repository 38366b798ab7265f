"""What tests of the client do again and again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from agor.client import Client, Feed
from agor.protocol.api import FeedEvent

PATIENCE = 30.0


async def begin(client: Client) -> str:
    return (await client.create_session("scripted", "/")).session_id


async def say(client: Client, session: str, *script: Any) -> str:
    return (await client.prompt(session, json.dumps(script))).task_id


async def read(feed: Feed, count: int) -> list[int]:
    """The sequences of the next events."""
    async with asyncio.timeout(PATIENCE):
        return [(await anext(feed)).sequence for _ in range(count)]


async def to_the_end(feed: Feed, task_id: str) -> list[FeedEvent]:
    """All events up to the end of a task."""
    events = []
    async with asyncio.timeout(PATIENCE):
        async for event in feed:
            events.append(event)
            if event.type == "task" and event.task_id == task_id and event.data["ended_at"]:
                return events
    raise AssertionError("the feed ended")


def is_whole(events: list[FeedEvent]) -> bool:
    return [event.sequence for event in events] == list(range(1, len(events) + 1))

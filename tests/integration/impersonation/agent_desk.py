"""A person who works with a real agent through the daemon, as their own Unix user."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agor.client import Client
from agor.protocol.api import Message, Permission, Session, Task
from agor.protocol.conversation import Conversation
from agor.testing.model import ModelServer
from tests.agents.site import PATIENCE, prompt_of
from tests.agents.subjects.base import Step, Subject
from tests.integration.impersonation.people_site import PeopleSite
from tests.integration.unix_users import TestUser


class AgentDesk:
    """One session of one person."""

    def __init__(self, client: Client, subject: Subject, folder: Path, session: Session) -> None:
        self.client = client
        self.subject = subject
        self.folder = folder
        self.session = session
        self._answered: set[str] = set()
        #: Where in the feed the last prompt is.
        self._seen = 0

    async def prompt(self, words: str, *turns: list[Step], **more: Any) -> str:
        """Give the agent a prompt; gives the task."""
        self._seen = (await self.client.messages(self.session.session_id, limit=1)).sequence
        prompt = prompt_of(words, *turns)
        accepted = await self.client.prompt(self.session.session_id, prompt, **more)
        return accepted.task_id

    async def ended(self, task_id: str) -> Task:
        """Wait for the end of a task."""
        return await self.client.wait_task(task_id, timeout=PATIENCE)

    async def asked(self) -> Permission:
        """Wait for the next question of this session."""
        async with self.client.follow(self.session.session_id, self._seen) as feed:
            state = Conversation()
            async for event in feed:
                state.take(event)
                if event.type == "task_result":
                    raise AssertionError(f"it ended without a question: {event.data}")
                for each in state.permissions.values():
                    if each.status == "pending" and each.permission_id not in self._answered:
                        found = await self.client.permission(each.permission_id)
                        if found.status == "pending":
                            self._answered.add(each.permission_id)
                            return found
        raise AssertionError("the feed ended")

    async def blocks(self) -> list[Message]:
        """The whole conversation, as the feed tells it and as it is read back: the same."""
        messages = await self.client.messages(self.session.session_id, limit=200)
        state = Conversation()
        async with self.client.follow(self.session.session_id) as feed:
            async for event in feed:
                state.take(event)
                if event.sequence >= messages.sequence:
                    break
        assert state.messages == messages.items
        return messages.items


@asynccontextmanager
async def desk_of(
    daemon: PeopleSite, name: str, user: TestUser, subject: Subject, model: ModelServer, key: str
) -> AsyncIterator[AgentDesk]:
    """Begin a session of somebody's, in a folder in their home, with a key of theirs."""
    # A new one: Claude does not write over a file that it has not read, and does not ask then.
    folder = Path(tempfile.mkdtemp(prefix="work-", dir=user.home))
    os.chown(folder, user.uid, user.gid)
    async with client_of(daemon, name) as client:
        await client.credentials.set(
            subject.credential, key, base_url=model.url + subject.base_path
        )
        session = await client.create_session(
            subject.agentic_tool, str(folder), model=subject.model
        )
        yield AgentDesk(client, subject, folder, session)


def client_of(daemon: PeopleSite, name: str) -> Client:
    return Client(f"http://127.0.0.1:{daemon.port}", daemon.tokens[name])

"""Executors look for agents where the configuration says, whichever way they are started."""

from __future__ import annotations

import asyncio
import re

import pytest

from tests.integration.daemon.client_steps import begin, say, to_the_end
from tests.integration.daemon.daemon_process import DaemonProcess, running_daemon


async def folder_that_an_executor_knows(daemon: DaemonProcess) -> str:
    """Have a new session look."""
    async with daemon.client() as client:
        session = await begin(client)
        task = await say(client, session, {"run": ["sh", "-c", "echo \\<$AGOR_AGENTS\\>"]})
        async with client.follow(session) as feed:
            events = await to_the_end(feed, task)
    found = re.search("<(/[^>]*)>", str([event.data for event in events]))
    assert found
    return found[1]


@pytest.mark.parametrize("use_executor", [True, False])
@pytest.mark.parametrize("folder", [None, "/opt/agents"])
async def test_an_executor_knows_the_folder_of_agents(use_executor: bool, folder: str | None):
    settings = {"execution.use_executor": use_executor}
    with running_daemon(settings | ({"execution.agents_folder": folder} if folder else {})) as one:
        wanted = folder or str(one.home.folder / "agents")
        assert await folder_that_an_executor_knows(one) == wanted


async def test_after_a_change_and_a_restart_new_executors_know_the_new_one():
    with running_daemon({"execution.agents_folder": "/opt/old"}) as daemon:
        # It stays, and with it the launcher that has started it.
        assert await folder_that_an_executor_knows(daemon) == "/opt/old"
        daemon.configure({"execution.agents_folder": "/opt/new"})
        await asyncio.to_thread(daemon.restart)
        assert await folder_that_an_executor_knows(daemon) == "/opt/new"

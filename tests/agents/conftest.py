"""The agents that are installed, and a site for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agor.testing.model import ModelServer
from tests.agents.needed import need_agent
from tests.agents.site import Site, folder_of_its_own
from tests.agents.subjects import SUBJECTS
from tests.agents.subjects.base import Subject


@pytest.fixture(params=sorted(SUBJECTS))
def subject(request: pytest.FixtureRequest) -> Subject:
    """Each agent in turn."""
    need_agent(SUBJECTS[request.param].agentic_tool)
    return SUBJECTS[request.param]


@pytest.fixture
async def site(subject: Subject) -> AsyncIterator[Site]:
    """A home, a workspace and a scripted model for one agent."""
    with folder_of_its_own() as folder:
        async with ModelServer(models=(subject.model, subject.other_model)) as model:
            site = Site(subject, folder, model)
            try:
                yield site
            finally:
                site.clean_up()

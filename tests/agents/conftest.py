"""The agents that are installed, and a site for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.agents.needed import need_agent
from tests.agents.site import Site, site_of
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
    async with site_of(subject) as made:
        yield made

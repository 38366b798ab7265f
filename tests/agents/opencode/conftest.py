"""OpenCode alone, where the suite has every agent in turn."""

from __future__ import annotations

import pytest

from tests.agents.needed import need_agent
from tests.agents.subjects.base import Subject
from tests.agents.subjects.opencode import OPENCODE


@pytest.fixture
def subject() -> Subject:
    """OpenCode."""
    need_agent("opencode")
    return OPENCODE

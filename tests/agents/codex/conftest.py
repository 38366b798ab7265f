"""Codex alone, where the suite has every agent in turn."""

from __future__ import annotations

import pytest

from tests.agents.needed import need_agent
from tests.agents.subjects.base import Subject
from tests.agents.subjects.codex import CODEX


@pytest.fixture
def subject() -> Subject:
    """Codex."""
    need_agent("codex")
    return CODEX

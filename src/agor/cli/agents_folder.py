"""Where this home has its agents, as its configuration says."""

from __future__ import annotations

from agor.config.reading import load
from agor.home import Home
from agor.installing.folder import AgentsFolder


def configured_folder() -> AgentsFolder:
    """Find it; nothing is made."""
    home = Home.find()
    return AgentsFolder(home.path(load(home.folder).execution.agents_folder))

"""What `agor agent install` has put there is what the catalogue says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agor.catalogue import CATALOGUE, NpmPackage
from agor.installing.folder import AgentsFolder
from agor.installing.looking import look
from agor.installing.trying import try_program
from tests.agents.needed import need_agent


@pytest.mark.parametrize("name", CATALOGUE)
def test_an_agent_starts_and_is_of_the_version_that_agor_knows(name: str):
    need_agent(name)
    agent = CATALOGUE[name]
    found = look(agent, AgentsFolder(Path(os.environ["AGOR_AGENTS"])))
    assert found.path is not None
    assert found.why_not is None
    tried = try_program(found.path)
    assert tried.why is None
    assert found.version == agent.package.version
    if isinstance(agent.package, NpmPackage):
        assert tried.version == agent.package.version

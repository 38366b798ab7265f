"""The catalogue agrees with what is shipped beside it."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from agor.catalogue import CATALOGUE, KnownAgent, NpmPackage, PythonPackage
from agor.config import Config
from agor.config.reading import load
from agor.daemon.services.credentials import agent_keys
from agor.daemon.settings import pool_settings
from agor.home import Home
from agor.installing.install import shipped_lock

ROOT = Path(__file__).parents[2]
FROM_NPM = [agent for agent in CATALOGUE.values() if isinstance(agent.package, NpmPackage)]
EXACT = re.compile(r"\d+\.\d+\.\d+")


@pytest.mark.parametrize("agent", FROM_NPM, ids=lambda agent: agent.name)
def test_a_lock_file_has_the_same_version_a_hash_of_everything_and_no_host(agent: KnownAgent):
    lock = json.loads(shipped_lock(agent))
    package = agent.package
    assert EXACT.fullmatch(package.version)
    packages = dict(lock["packages"])
    assert packages.pop("") == {"name": agent.name, "dependencies": {package.name: package.version}}
    assert packages[f"node_modules/{package.name}"]["version"] == package.version
    for name, entry in packages.items():
        assert entry["integrity"].startswith("sha512-"), name
        assert "resolved" not in entry, name
    assert b"://" not in shipped_lock(agent)


def test_no_lock_file_is_left_of_an_agent_that_is_gone():
    folder = ROOT / "src" / "agor" / "installing" / "locks"
    assert {path.stem for path in folder.iterdir()} == {agent.name for agent in FROM_NPM}


def test_a_python_package_is_that_of_the_extra_and_of_the_lock_file():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = (ROOT / "requirements.lock").read_text()
    for agent in CATALOGUE.values():
        if isinstance(agent.package, PythonPackage):
            name, version = agent.package.name, agent.package.version
            assert f"\n{name}=={version} " in locked
            extras = project["optional-dependencies"]
            assert any(line.startswith(f"{name}>={version},") for line in extras["claude"])


def test_every_agent_may_have_its_keys_and_only_one_whose_provider_is_open_any_other():
    for agent in CATALOGUE.values():
        assert agent.keys
        assert all(agent_keys.needs(agent.name, key) for key in agent.keys)
        assert agent_keys.needs(agent.name, "ANOTHER_KEY") == (agent.name == "opencode")


def test_the_how_to_page_has_each_agent_with_its_size_and_its_key():
    page = (ROOT / "docs" / "how-to" / "install-agents.md").read_text()
    for agent in CATALOGUE.values():
        row = re.search(rf"^\| `{agent.name}` \|.*$", page, re.MULTILINE)
        assert row, agent.name
        assert agent.package.name in row[0]
        assert f"{agent.package.megabytes} MB" in row[0]
        assert agent.any_key or agent.keys[0] in row[0]
        if isinstance(agent.package, NpmPackage) and agent.package.node:
            assert f"Node.js {agent.package.node}" in row[0]


def test_executors_are_told_the_folder_that_the_configuration_names(tmp_path: Path):
    home = Home(tmp_path)
    assert pool_settings(Config(), home).agents_folder == tmp_path / "agents"
    config = load(tmp_path, {"AGOR_EXECUTION__AGENTS_FOLDER": "/opt/agents"})
    assert pool_settings(config, home).agents_folder == Path("/opt/agents")

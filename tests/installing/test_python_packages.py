"""Agents that come as Python packages: what pip cannot do is told in words."""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest

from agor.catalogue import CATALOGUE, PythonPackage
from agor.errors import InstallFailed
from agor.installing import python_packages
from agor.installing.folder import AgentsFolder
from agor.installing.install import install

PACKAGE = PythonPackage(
    name="agor-no-such-package", version="1.2.3", module="agor_no_such", program="x", megabytes=1
)


def test_an_index_that_is_not_there_is_told_with_the_command_to_try(monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    with open(os.devnull) as held, pytest.raises(InstallFailed) as caught:  # noqa: PTH123
        python_packages.install(PACKAGE, agent="tiny", held=held.fileno())
    assert "cannot install tiny: the Python package index cannot be reached" in str(caught.value)
    by_hand = f"{sys.executable} -m pip install agor-no-such-package==1.2.3"
    assert by_hand in (caught.value.hint or "")


def test_an_environment_without_pip_is_told_with_another_command(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pip" else real(name)
    )
    with open(os.devnull) as held, pytest.raises(InstallFailed, match="there is no pip") as caught:  # noqa: PTH123
        python_packages.install(PACKAGE, agent="tiny", held=held.fileno())
    assert f"uv pip install --python {sys.executable} agor-no-such" in (caught.value.hint or "")


def test_one_that_is_there_and_starts_is_left_alone(tmp_path):
    begun: list[str] = []
    agent = CATALOGUE["claude-code"]
    found = install(
        agent, AgentsFolder(tmp_path / "agents"), on_begin=lambda: begun.append("begun")
    )
    assert (found.version, found.why_not, begun) == (agent.package.version, None, [])


def test_what_is_not_there_has_neither_program_nor_version():
    assert python_packages.program_of(PACKAGE) is None
    assert python_packages.installed_version(PACKAGE) is None

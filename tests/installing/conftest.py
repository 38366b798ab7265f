"""npm that asks a registry of our own and has an empty cache."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from agor.installing.folder import AgentsFolder
from tests.installing.registry import Registry
from tests.integration.processes import Mark


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    registry = Registry()
    monkeypatch.setenv("npm_config_registry", registry.url)
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("AGOR_TEST_SCRIPT_RAN", str(tmp_path / "script-ran"))
    yield registry
    registry.close()


@pytest.fixture
def folder(tmp_path: Path) -> AgentsFolder:
    return AgentsFolder(tmp_path / "new" / "agents")


@pytest.fixture
def mark() -> Iterator[Mark]:
    """A mark for the processes of a test; they end with it."""
    mark = Mark()
    yield mark
    mark.end_all()

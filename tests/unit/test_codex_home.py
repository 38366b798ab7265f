"""Codex's folder of agor's: what of the person's own holds in it, and what does not."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from agor.agents.codex.home import prepare_home
from agor.errors import AgentFailed

SETTINGS = r"""
model = "gpt-5.5"
odd.key = 'quote " backslash \ tab	 smile 😀'
control = "\u007f\u0001"
numbers = [1, -2.5, inf, 1e3]
since = 2026-11-16T08:00:00Z
on = true
[projects."/w"]
trust_level = "trusted"
[hooks]
x = 1
[mcp_servers.docs]
command = "docs"
env = { "A B" = "c" }
[mcp_servers.docs.tools.find]
approval_mode = "approve"
[[several]]
a = 1
[[several]]
b = []
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".codex"
    folder.mkdir()
    return folder


def test_settings_are_the_persons_own_but_for_what_lets_commands_run_unasked(own: Path):
    (own / "config.toml").write_text(SETTINGS)
    copy = prepare_home() / "config.toml"
    wanted = tomllib.loads(SETTINGS)
    del wanted["projects"], wanted["hooks"]
    wanted["mcp_servers"]["docs"]["default_tools_approval_mode"] = "prompt"
    wanted["mcp_servers"]["docs"]["tools"]["find"]["approval_mode"] = "prompt"
    assert tomllib.loads(copy.read_text()) == wanted
    assert copy.stat().st_mode & 0o777 == 0o600


def test_changes_of_the_persons_own_hold_from_the_next_start_on(own: Path):
    (own / "config.toml").write_text('model = "one"\n')
    (own / "AGENTS.md").write_text("be brief")
    (own / "skills" / "mine").mkdir(parents=True)
    home = prepare_home()
    assert (home / "AGENTS.md").read_text() == "be brief"
    assert (home / "skills" / "mine").is_dir()
    (own / "config.toml").unlink()
    (own / "AGENTS.md").unlink()
    (own / "skills" / "mine").rmdir()
    prepare_home()
    assert [path.name for path in home.iterdir()] == ["skills"]
    assert list((home / "skills").iterdir()) == []


def test_rules_logins_and_hooks_stay_where_they_are(own: Path):
    for name in ("rules", "auth.json", "hooks.json", "sessions"):
        (own / name).mkdir()
    home = prepare_home()
    assert [path.name for path in home.iterdir()] == ["skills"]


def test_settings_that_cannot_be_read_are_an_error_that_names_the_file(own: Path):
    (own / "config.toml").write_text("model = \n")
    with pytest.raises(AgentFailed, match=r"config\.toml"):
        prepare_home()

"""`agor agent` as people meet it: what is here, what is missing, and what to type."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.people_commands import Agor
from tests.e2e.terminal import terminal


@pytest.fixture
def programs(agor: Agor, tmp_path: Path) -> Iterator[Path]:
    """A folder that is all of the search path that matters; Node is there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program(folder, "node", "v22.1.0")
    before = dict(agor.env)
    agor.env |= {"PATH": f"{folder}:/bin"}
    agor.env |= {"AGOR_EXECUTION__AGENTS_FOLDER": str(tmp_path / "agents")}
    yield folder
    agor.env = before


def program(folder: Path, name: str, version: str) -> None:
    """Put a program there that knows its version."""
    (folder / name).write_text(f"#!/bin/sh\necho {name} {version}\n")
    (folder / name).chmod(0o755)


def test_the_list_has_what_is_on_the_path_and_what_to_type_for_the_rest(agor, programs):
    program(programs, "codex", "0.166.0")
    program(programs, "gemini", "0.1.2")
    lines = agor.done("agent", "list").splitlines()
    found = {line.split()[0]: line for line in lines[1:]}
    assert list(found) == ["claude-code", "codex", "gemini", "opencode"]
    assert f"0.166.0  available, {programs}/codex" in found["codex"]
    assert "older than 0.61.0" in found["gemini"]
    assert found["gemini"].endswith("agor agent install gemini")
    assert found["opencode"].endswith("not installed; agor agent install opencode")


def test_the_list_as_json(agor, programs):
    program(programs, "codex", "0.166.0")
    by_name = {each["name"]: each for each in json.loads(agor.done("agent", "list", "--json"))}
    assert by_name["codex"] == {
        "name": "codex", "title": "Codex", "available": True, "reason": None,
        "version": "0.166.0", "wanted_version": "0.166.0", "program": f"{programs}/codex",
        "installed_by_agor": False, "credentials": ["OPENAI_API_KEY", "CODEX_API_KEY"],
    }  # fmt: skip
    assert by_name["opencode"]["available"] is False
    assert by_name["opencode"]["reason"] == "not installed"


def test_a_node_that_is_too_old_is_why_an_agent_cannot_be_used(agor, programs):
    program(programs, "node", "v18.19.1")
    program(programs, "gemini", "0.61.0")
    by_name = {each["name"]: each for each in json.loads(agor.done("agent", "list", "--json"))}
    why = "it needs Node.js 20 or newer, and this is 18.19.1"
    assert (by_name["gemini"]["available"], by_name["gemini"]["reason"]) == (False, why)


def test_a_check_of_what_is_needed_fails_with_the_command_until_all_is_there(agor, programs):
    done = agor("agent", "check", "codex")
    assert done.returncode == 1
    assert done.stdout.splitlines()[:2] == [
        "✗ codex: not installed",
        "    agor agent install codex",
    ]
    program(programs, "codex", "0.165.9")
    done = agor("agent", "check", "codex")
    assert done.returncode == 1
    assert "✗ codex: 0.165.9; agor was tested with 0.166.0\n    agor agent install" in done.stdout
    program(programs, "codex", "0.167.0")
    done = agor("agent", "check", "codex")
    assert done.returncode == 1
    assert "✓ codex: 0.167.0" in done.stdout
    assert (
        "✗ codex key: none is kept\n    agor credential set OPENAI_API_KEY\n1 problem"
        in done.stdout
    )
    agor.done("credential", "set", "OPENAI_API_KEY", given="sk-canary-of-a-key")
    shown = agor.done("agent", "check", "codex")
    assert "✓ codex key: OPENAI_API_KEY\nAll is well." in shown
    assert "canary" not in shown


def test_a_key_for_another_agent_alone_does_not_count(agor, programs):
    program(programs, "gemini", "0.61.0")
    agor.done("credential", "set", "GOOGLE_API_KEY", "--agent", "opencode", given="x" * 20)
    done = agor("agent", "check", "gemini")
    assert "✗ gemini key: none is kept" in done.stdout
    agor.done("credential", "delete", "GOOGLE_API_KEY")


def test_a_program_that_does_not_start_is_told_with_what_it_said(agor, programs):
    (programs / "opencode").write_text("#!/bin/sh\necho 'no such libc' >&2; exit 1\n")
    (programs / "opencode").chmod(0o755)
    done = agor("agent", "check", "opencode")
    assert done.returncode == 1
    what = f"✗ opencode: {programs}/opencode does not start (exit code 1): no such libc"
    assert what in done.stdout


def test_what_nobody_asked_for_is_no_problem(agor, programs):
    agor.done("credential", "set", "ANTHROPIC_API_KEY", given="x" * 20)
    done = agor("agent", "check")
    assert done.returncode == 0, done.stdout
    assert "! codex: not installed\n    agor agent install codex" in done.stdout


def test_without_npm_an_install_says_what_to_do_and_makes_nothing(agor, programs, tmp_path):
    (programs / "node").unlink()
    agor.env |= {"PATH": str(programs)}
    words = agor.refused("agent", "install", "codex")
    assert "cannot install codex: it needs Node.js 16 or newer" in words
    assert "apt-get install nodejs npm" in words
    assert not list((tmp_path / "agents").glob("bin/*"))


def test_an_agent_that_nobody_knows_is_refused_with_those_that_are(agor):
    assert "Known agents: claude-code, codex," in agor.refused("agent", "install", "cursor")


def test_in_a_terminal_no_line_is_broken(agor, programs):
    program(programs, "codex", "0.166.0")
    command = [str(agor.command), "agent", "list"]
    with terminal(command, agor.mark, agor.env | {"COLUMNS": "80"}) as shown:
        assert shown.wait_ended() == 0
        assert f"0.166.0  available, {programs}/codex" in shown.text

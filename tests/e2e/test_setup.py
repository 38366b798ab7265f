"""`make setup`: it shows how far it is, and nothing of pip's own words unless pip fails."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.e2e.terminal import terminal
from tests.integration.processes import Mark

SCRIPT = Path(__file__).parents[2] / "scripts" / "setup"
LOCK = """\
first==1.0 \\
    --hash=sha256:0
second[x]==2.0
for-others==3.0 ; sys_platform == 'win32'
"""
#: A pip that says what pip would, and waits for the test at each step.
PIP = """
import sys

def say(*lines):
    print(*lines, sep="\\n", flush=True)
    with open({fifo!r}) as file:
        file.read()

if "-r" in sys.argv:
    say("Ignoring for-others: markers do not match", "Collecting first==1.0 (from -r x (line 1))")
    say("  Downloading first-1.0-py3-none-any.whl (161.8 MB)")
    say("WARNING: Location 'x' is ignored", "Processing /wheels/second-2.0-py3-none-any.whl")
    say("Installing collected packages: first, second")
    sys.exit({code})
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout whose environment has been made, with a pip of ours."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts" / "setup")
    (tmp_path / "requirements.lock").write_text(LOCK)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "pip").touch()
    os.mkfifo(tmp_path / "fifo")
    return tmp_path


def with_pip(root: Path, code: int) -> list[str]:
    """Put the pip there; gives the command."""
    pip = root / "pip.py"
    pip.write_text(PIP.format(fifo=str(root / "fifo"), code=code))
    python = root / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{pip}" "$@"\n')
    python.chmod(0o755)
    return [sys.executable, str(root / "scripts" / "setup")]


def go_on(root: Path) -> None:
    (root / "fifo").write_text("")


@pytest.mark.parametrize("code", [0, 1])
def test_each_package_is_shown_while_it_is_installed(root: Path, mark: Mark, code: int):
    with terminal(with_pip(root, code), mark, {}) as shown:
        for words in (
            "1 of 2, first (",
            "1 of 2, first, 161.8 MB (",
            "2 of 2, second (",
            "unpacking",
        ):
            shown.wait_for(words)
            go_on(root)
        assert shown.wait_ended() == code
    if code == 0:
        assert "installing the dependencies into .venv: done in" in shown.text
        assert "installing agor: done in" in shown.text
        assert "WARNING" not in shown.text
    else:
        assert "installing the dependencies into .venv: failed after" in shown.text
        assert "WARNING: Location 'x' is ignored" in shown.text, "why, in pip's own words"
        assert "installing agor" not in shown.text
        assert "Traceback" not in shown.text

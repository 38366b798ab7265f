"""A reader who tries a document: one shell in a real terminal, one home, everything in order."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal, terminal
from tests.integration.control_groups import remove_groups
from tests.integration.processes import PATIENCE, Mark, inhabitants

#: Seconds for a block of commands; agents on a busy machine take their time.
BLOCK_PATIENCE = 8 * PATIENCE
_SECRET = "sk-of-a-reader-0123456789\n"
_PASSWORD = "correct horse battery staple\n"

#: What a person types, by what they are asked.
_ANSWERS: Mapping[str, str] = {
    r"^[A-Z_]+_(?:KEY|TOKEN): ": _SECRET,
    r"New password for .*: ": _PASSWORD,
    r"Again: ": _PASSWORD,
    r"Password of .*: ": _PASSWORD,
    re.escape("? [y/N]: "): "y\n",
    re.escape("[o]nce  [s]ession  [a]lways  [n]o: "): "o\n",
    # A shell of a session: it is left running.
    re.escape("Ctrl-] and then d leaves it running."): "\x1dd",
}
_QUESTIONS = re.compile(
    "|".join(f"(?P<q{i}>{each})" for i, each in enumerate(_ANSWERS)), re.MULTILINE
)
_KEYS = list(_ANSWERS.values())

#: Runs the scripts that are named on descriptor 9, each in this same shell. What fails is named.
_SHELL = r"""
exec 9<"$1"
set -o pipefail
trap 'printf "\n<<failed %s: %s>>\n" "$?" "$BASH_COMMAND"' ERR
while read -r -u 9 script; do
  . "$script" 9<&-
  printf '\n<<done %s>>\n' "$script"
done
"""
_FAILED = re.compile(r"<<failed (\d+): (.*?)>>", re.DOTALL)


class Reader:
    """Types what a document says, and answers what is asked."""

    def __init__(self, folder: Path, shell: Terminal, scripts: int) -> None:
        self.folder = folder
        self._shell = shell
        self._scripts = scripts
        self._count = 0

    def run(self, script: str, place: str) -> str:
        """Run a script to its end, and return what it showed."""
        path = self._write(script)
        start = self._answered = len(self._shell.text)
        os.write(self._scripts, f"{path}\n".encode())
        done = f"<<done {path}>>"
        ended = self._shell.wait_until(lambda text: self._attend(text, done), BLOCK_PATIENCE)
        shown = self._shell.text[start:].split(done)[0].strip()
        assert ended, (
            f"{place}: this did not end, or ended the shell:\n{script}\n\nit showed:\n{shown}"
        )
        for code, command in _FAILED.findall(shown):
            pytest.fail(
                f"{place}: exit code {code} of: {command}\n\n"
                f"the block, as it was run:\n{script}\n\nit showed:\n{shown}",
                pytrace=False,
            )
        return shown

    def start(self, script: str, place: str, until: str) -> Path:
        """Run a script in another shell, where it stays; wait until it has shown something."""
        path = self._write(script)
        output = path.with_suffix(".out")
        output.touch()
        self.run(f"bash {path} > {output} 2>&1 < /dev/null &\n", place)
        deadline = time.monotonic() + BLOCK_PATIENCE
        while not re.search(until, shown := output.read_text()):
            assert time.monotonic() < deadline, f"{place}: {until!r} was not shown:\n{shown}"
            time.sleep(0.01)
        return output

    def _attend(self, text: str, done: str) -> bool:
        """Answer what is newly asked; tell whether all is done."""
        for asked in _QUESTIONS.finditer(text, self._answered):
            self._answered = asked.end()
            self._shell.type(_KEYS[int((asked.lastgroup or "q")[1:])])
        return done in text

    def _write(self, script: str) -> Path:
        self._count += 1
        path = self.folder / "scripts" / str(self._count)
        path.parent.mkdir(exist_ok=True)
        path.write_text(script, encoding="utf-8")
        return path


@contextlib.contextmanager
def reader(programs: Mapping[str, str], **env: str) -> Iterator[Reader]:
    """Have a reader with a home, a folder and programs of their own, of which nothing is left."""
    mark = Mark()
    # A short path: there are sockets below it.
    folder = Path(tempfile.mkdtemp(prefix="agor-docs-"))
    home, checkout, bin_folder = folder / "home", folder / "checkout", folder / "bin"
    for each in (home, checkout, bin_folder, folder / "tmp"):
        each.mkdir()
    # Where a reader is who has cloned the repository.
    (checkout / ".venv").symlink_to(Path(sys.prefix))
    for name, script in programs.items():
        path = bin_folder / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
    scripts = folder / "shell"
    os.mkfifo(scripts)
    environment = {
        "HOME": str(home),
        "AGOR_HOME": str(home / ".agor"),
        "TMPDIR": str(folder / "tmp"),
        "PATH": f"{bin_folder}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "160",
        **env,
    }
    command = ["bash", "-c", _SHELL, "bash", str(scripts)]
    try:
        with terminal(command, mark, environment, cwd=checkout) as shell:
            orders = os.open(scripts, os.O_WRONLY)
            try:
                yield Reader(folder, shell, orders)
            finally:
                os.close(orders)
    finally:
        _end(folder, mark)


def free_port() -> int:
    """Find a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _end(folder: Path, mark: Mark) -> None:
    """End what a document has started, daemons and executors included, and remove its folder."""
    home = folder / "home" / ".agor"
    # Of a daemon only root sees the environment, and with it the mark.
    with contextlib.suppress(OSError, LookupError, ValueError):
        os.kill(json.loads((home / "run" / "daemon.json").read_text())["pid"], signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE
    while (left := mark.bearers() | inhabitants(folder)) and time.monotonic() < deadline:
        for pid in left - {os.getpid()}:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    remove_groups(home / "run")
    shutil.rmtree(folder, ignore_errors=True)

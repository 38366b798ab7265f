"""Starts a program to see whether it does, and of which version it is."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

#: Seconds for `--version`; the largest take one, on a busy machine ten.
_TIMEOUT = 60.0
_VERSION = re.compile(r"\d+(?:\.\d+)+")
#: Of our own variables, what it takes to start a program, and nothing secret.
_KEPT = ("PATH", "LANG", "TZ")


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of it: a version, or why there is none."""

    version: str | None
    why: str | None = None


def try_program(program: Path) -> Tried:
    """Ask a program for its version."""
    # Some make folders in their home even to say that; those are not for the home of a person.
    with tempfile.TemporaryDirectory(prefix="agor-", ignore_cleanup_errors=True) as home:
        env = {name: os.environ[name] for name in _KEPT if name in os.environ}
        try:
            running = subprocess.Popen(
                [program, "--version"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env=env | {"HOME": home, "TMPDIR": home},
                cwd=home,
                start_new_session=True,
            )
        except OSError as error:
            return Tried(None, f"cannot be run: {error.strerror}")
        try:
            said, errors = running.communicate(timeout=_TIMEOUT)
        except subprocess.TimeoutExpired:
            return Tried(None, f"did not tell its version in {_TIMEOUT:g} s")
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.communicate()
    return read_answer(running.returncode, said, errors)


def read_answer(exit_code: int, said: str, errors: str) -> Tried:
    """Find the version in what a program has said, or say why there is none."""
    found = _VERSION.search(said)
    if exit_code == 0 and found:
        return Tried(found[0])
    lines = [line.strip() for line in (errors or said).splitlines() if line.strip()]
    how = f"killed by signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
    return Tried(None, f"does not start ({how}){f': {lines[0][:300]}' if lines else ''}")


def numbers(version: str) -> tuple[int, ...]:
    """Make a version comparable."""
    return tuple(map(int, re.findall(r"\d+", version)))

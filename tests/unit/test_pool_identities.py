"""Whether executors may run as somebody else: what sudo says, and what it does not say."""

from __future__ import annotations

import pytest

from agor.daemon.pool import identities
from agor.environments.identity import UnixIdentity
from agor.errors import ImpersonationRefused, LauncherLost

NOBODY = UnixIdentity.of("nobody")


@pytest.fixture
def sudo(monkeypatch, tmp_path):
    """Write the program that is asked, for a daemon that is not root."""
    monkeypatch.setattr(identities, "way_to", lambda _: "sudo")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    program = tmp_path / "sudo"

    def write(script: str) -> None:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    return write


def test_a_no_is_a_refusal_in_its_words(sudo):
    sudo("echo sudo: a password is required >&2; exit 1")
    with pytest.raises(ImpersonationRefused, match="a password is required"):
        identities.check(NOBODY)


def test_no_answer_in_time_is_no_refusal(sudo, monkeypatch):
    monkeypatch.setattr(identities, "_SUDO_TIMEOUT", 0.1)
    sudo("exec sleep 60")
    with pytest.raises(LauncherLost, match="sudo did not say"):
        identities.check(NOBODY)

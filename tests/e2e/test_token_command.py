"""`agor token` as people and scripts meet it."""

from __future__ import annotations

import json
import re
import time

import pytest

from tests.e2e.people_commands import Agor
from tests.e2e.terminal import terminal
from tests.integration.processes import Mark

PASSWORD = "correct horse battery"
DAY = 24 * 3600 * 1000


def tokens(agor: Agor, *arguments: str) -> dict[str, dict[str, object]]:
    listed = json.loads(agor.done("token", "list", "--json", *arguments))
    return {token["name"]: token for token in listed}


def test_a_token_is_all_that_is_printed_so_that_it_can_be_piped(agor: Agor):
    done = agor("token", "create", "for the build")
    assert done.returncode == 0
    assert re.fullmatch(r"agor_[A-Za-z0-9_-]{43}\n", done.stdout)
    token = done.stdout.strip()
    listed = tokens(agor)["for the build"]
    assert "only time" in done.stderr
    assert str(listed["token_id"]) in done.stderr
    assert token not in done.stderr
    assert agor.status_with(token) == 200
    assert token not in agor.done("token", "list")
    assert token not in (agor.home / "logs" / "daemon.log").read_text()


def test_a_revoked_one_is_refused_at_once(agor: Agor):
    token = agor.done("token", "create", "to be revoked").strip()
    token_id = str(tokens(agor)["to be revoked"]["token_id"])
    assert agor.done("token", "revoke", token_id) == f"{token_id} is revoked\n"
    assert agor.status_with(token) == 401
    assert "to be revoked" not in tokens(agor)
    assert "no token" in agor.refused("token", "revoke", token_id)
    assert "cannot be an id" in agor.refused("token", "revoke", "../users")


@pytest.mark.parametrize(("typed", "days"), [("36h", 1.5), ("7d", 7), ("90d", 90)])
def test_it_is_good_for_as_long_as_it_is_said(agor: Agor, typed: str, days: float):
    before = time.time_ns() // 1_000_000
    agor.done("token", "create", typed, "--expires-in", typed)
    expires_at = tokens(agor)[typed]["expires_at"]
    assert isinstance(expires_at, int)
    after = time.time_ns() // 1_000_000
    assert before <= expires_at - days * DAY <= after


def test_never_is_said_explicitly(agor: Agor):
    done = agor("token", "create", "eternal", "--expires-in", "never")
    assert "never expires" in done.stderr
    assert tokens(agor)["eternal"]["expires_at"] is None
    (line,) = [line for line in agor.done("token", "list").splitlines() if "eternal" in line]
    assert "never" in line


@pytest.mark.parametrize("typed", ["0d", "soon", "-1d", "1w", "", "9999999d"])
def test_a_time_that_is_none_is_refused(agor: Agor, typed: str):
    assert "--expires-in" in agor.refused("token", "create", "x", f"--expires-in={typed}")


def test_somebody_makes_one_with_their_password_and_no_other_right(agor: Agor):
    agor.done("user", "add", "ada", "--password-stdin", given=PASSWORD)
    made = ("token", "create", "adas", "--user", "Ada", "--password-stdin")
    token = agor.done(*made, given=PASSWORD).strip()
    assert agor.status_with(token) == 200
    assert list(tokens(agor, "--user", "ada")) == ["adas"]
    assert "adas" not in tokens(agor)
    # With the address alone, as from another machine.
    agor.done(*made, "--url", agor.url, given=PASSWORD)
    assert "password" in agor.refused(*made, given="a wrong password")
    assert "--user" in agor.refused("token", "create", "x", "--url", agor.url)
    assert "no daemon" in agor.refused(*made, "--url", "http://127.0.0.1:9", given=PASSWORD)
    agor.done("user", "disable", "ada")
    assert agor.status_with(token) == 401


def test_in_a_terminal_the_password_is_asked_for(agor: Agor):
    agor.done("user", "add", "bea", "--password-stdin", given=PASSWORD)
    command = [str(agor.command), "token", "create", "beas", "--user", "bea"]
    with terminal(command, Mark(), agor.env) as screen:
        screen.wait_for("Password of bea:")
        screen.type(f"{PASSWORD}\n")
        assert screen.wait_ended() == 0
        assert "agor_" in screen.text
        assert PASSWORD not in screen.text

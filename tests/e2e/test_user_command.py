"""`agor user` as people and scripts meet it, and what it takes to listen beyond this machine."""

from __future__ import annotations

import subprocess

from tests.e2e.people_commands import Agor
from tests.e2e.terminal import terminal
from tests.integration.processes import Mark

PASSWORD = "correct horse battery"


def test_somebody_is_added_and_comes_in(agor: Agor):
    assert agor.done("user", "add", "Ada", "--password-stdin", given=f"{PASSWORD}\n") == (
        "ada is added (member)\n"
    )
    assert agor.sign_in("ada", PASSWORD) == 200
    assert agor.sign_in("ada", f"{PASSWORD}\n") == 401
    user = agor.users()["ada"]
    assert (user["role"], user["has_password"], user["unix_username"]) == ("member", True, None)
    log = (agor.home / "logs" / "daemon.log").read_text()
    assert PASSWORD not in log
    assert "horse" not in log


def test_without_a_terminal_nobody_is_asked_and_it_is_said(agor: Agor):
    done = agor("user", "add", "ben", "--role", "viewer", "--unix-user", "daemon")
    assert (done.returncode, done.stdout) == (0, "ben is added (viewer)\n")
    assert done.stderr == "They have no password yet: agor user set-password ben\n"
    said = agor.refused("user", "set-password", "ben")
    assert "--password-stdin" in said
    assert agor.done("user", "set-password", "BEN", "--password-stdin", given=PASSWORD) == (
        "ben has a new password\n"
    )
    assert agor.sign_in("ben", PASSWORD) == 200


def test_everybody_is_listed_one_a_line(agor: Agor):
    agor.done("user", "add", "carl", "--role", "admin", "--unix-user", "daemon")
    lines = agor.done("user", "list").splitlines()
    assert lines[0].split() == ["name", "role", "unix", "user", "password", "state"]
    assert "\x1b" not in "".join(lines)
    (carl,) = [line.split() for line in lines if line.startswith("carl ")]
    assert carl == ["carl", "admin", "daemon", "no", "enabled"]
    assert [line.split()[0] for line in lines[1:]] == list(agor.users())


def test_what_somebody_may_do_and_who_they_are_is_changed(agor: Agor):
    agor.done("user", "add", "dora")
    assert agor.done("user", "set-role", "dora", "admin") == "dora is admin now\n"
    assert agor.done("user", "set-unix-user", "dora", "daemon") == (
        "dora is daemon on this machine now\n"
    )
    dora = agor.users()["dora"]
    assert (dora["role"], dora["unix_username"]) == ("admin", "daemon")
    assert agor.done("user", "set-unix-user", "dora", "none") == (
        "dora has no Unix user on this machine now\n"
    )
    assert agor.users()["dora"]["unix_username"] is None


def test_who_is_disabled_is_out_until_they_are_enabled(agor: Agor):
    agor.done("user", "add", "eve", "--password-stdin", given=PASSWORD)
    assert agor.done("user", "disable", "eve") == "eve is disabled\n"
    assert agor.sign_in("eve", PASSWORD) == 401
    assert "disabled" in agor.done("user", "list")
    assert agor.done("user", "enable", "eve") == "eve is enabled\n"
    assert agor.sign_in("eve", PASSWORD) == 200


def test_what_cannot_be_is_refused_in_words(agor: Agor):
    owner = next(name for name, user in agor.users().items() if user["role"] == "owner")
    agor.done("user", "add", "finn")
    assert "already" in agor.refused("user", "add", "FINN")
    assert "name" in agor.refused("user", "add", "two words")
    assert "password" in agor.refused("user", "add", "gus", "--password-stdin", given="short")
    assert "standard input" in agor.refused("user", "add", "gus", "--password-stdin")
    broken = subprocess.run(
        [agor.command, "user", "add", "gus", "--password-stdin"],
        input=b"\xff\xfe0123456789\n", capture_output=True, timeout=40,
        env=agor.mark.env | agor.env,
    )  # fmt: skip
    assert (broken.returncode, b"not UTF-8" in broken.stderr) == (1, True)
    assert "root" in agor.refused("user", "set-unix-user", "finn", "root")
    assert "no Unix user" in agor.refused("user", "set-unix-user", "finn", "nobody-like-that")
    assert "last owner" in agor.refused("user", "disable", owner)
    assert "own role" in agor.refused("user", "set-role", owner, "member")
    assert "agor user list" in agor.refused("user", "disable", "nobody-like-that")
    assert agor("user", "set-role", "finn", "god").returncode == 2
    assert "gus" not in agor.users()


def test_in_a_terminal_a_password_is_typed_twice_and_not_shown(agor: Agor):
    command = [str(agor.command), "user", "add", "hal"]
    with terminal(command, Mark(), agor.env) as screen:
        screen.wait_for("New password for hal:")
        screen.type(f"{PASSWORD}\n")
        screen.wait_for("Again:")
        screen.type(f"{PASSWORD}\n")
        assert screen.wait_ended() == 0
        assert "hal is added (member)" in screen.text
        assert PASSWORD not in screen.text
    assert agor.sign_in("hal", PASSWORD) == 200
    command = [str(agor.command), "user", "set-password", "hal"]
    with terminal(command, Mark(), agor.env) as screen:
        screen.wait_for("New password for hal:")
        screen.type("another password\n")
        screen.wait_for("Again:")
        screen.type("and another one\n")
        assert screen.wait_ended() == 1
        assert "not the same" in screen.text
    assert agor.sign_in("hal", PASSWORD) == 200


def test_listening_wider_takes_somebody_with_a_password(agor: Agor, tmp_path_factory):
    other = Agor(agor.command, tmp_path_factory.mktemp("w") / "h", agor.mark)
    wide = ("--host", "0.0.0.0", "--port", "0")
    try:
        assert "agor user set-password" in other("daemon", "start", *wide).stderr
        other.done("daemon", "start", "--port", "0")
        url = other.url
        assert "agor user set-password" in other.refused("daemon", "restart", *wide)
        assert other.url == url, "the one that runs is left alone"
        other.done("user", "add", "ada", "--password-stdin", given=PASSWORD)
        other.done("daemon", "restart", *wide)
        assert other.url.startswith("http://127.0.0.1:")
        assert other.sign_in("ada", PASSWORD) == 200
        assert "ada" in other.users()
    finally:
        other("daemon", "stop", "--force")

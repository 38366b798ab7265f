"""Two people with terminals: each is who they are in it, and neither gets at the other's."""

from __future__ import annotations

import contextlib
import itertools
import re
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.integration.impersonation.people_site import PeopleSite, people_site
from tests.integration.impersonation.test_two_people import SNOOP, begin, names_of, until
from tests.integration.processes import PATIENCE

_numbers = itertools.count(1000)


@pytest.fixture
def daemon(site) -> Iterator[PeopleSite]:
    with people_site(site) as running:
        yield running


def open_terminal(daemon: PeopleSite, who: str, session_id: str, **new: Any) -> str:
    made = daemon.made(who, f"/sessions/{session_id}/terminals", **(new or {"cols": 400}))
    terminal_id: str = made["terminal_id"]
    return terminal_id


@contextlib.contextmanager
def attached(daemon: PeopleSite, who: str, terminal_id: str) -> Iterator[ClientConnection]:
    url = f"ws://127.0.0.1:{daemon.port}/terminals/{terminal_id}"
    headers = {"authorization": f"Bearer {daemon.tokens[who]}"}
    with connect(url, additional_headers=headers, proxy=None, compression=None) as connection:
        yield connection


def run(connection: ClientConnection, command: str) -> str:
    """Have a shell run something; tells what it printed."""
    number = next(_numbers)
    connection.send(f"stty -echo; {command}; echo end-$(({number} + 1))-\n".encode())
    seen, mark = b"", f"end-{number + 1}-".encode()
    deadline = time.monotonic() + PATIENCE
    while mark not in seen:
        message = connection.recv(timeout=max(0.0, deadline - time.monotonic()))
        seen += message if isinstance(message, bytes) else b""
    return seen.partition(mark)[0].decode(errors="replace")


def test_each_ones_terminal_runs_as_they_themselves_in_their_own_home(daemon, anna, ben):
    for name, user in (("anna", anna), ("ben", ben)):
        terminal_id = open_terminal(daemon, name, begin(daemon, name, user))
        with attached(daemon, name, terminal_id) as connection:
            said = run(connection, "echo me=$(id -u):$(id -un) home=$HOME pwd=$(pwd) user=$USER")
            assert f"me={user.uid}:{user.name} home={user.home} pwd={user.home}" in said
            assert f"user={user.name}" in said
            assert daemon.site.canary not in run(connection, "env")
        shown = daemon.ask(name, "GET", f"/terminals/{terminal_id}").json()
        assert shown["shell"] == "/bin/sh", "their own"


def test_to_the_other_a_terminal_does_not_exist(daemon, anna, ben):
    session_id = begin(daemon, "anna", anna)
    begin(daemon, "ben", ben)
    terminal_id = open_terminal(daemon, "anna", session_id)
    for method, path in (
        ("GET", f"/sessions/{session_id}/terminals"),
        ("POST", f"/sessions/{session_id}/terminals"),
        ("GET", f"/terminals/{terminal_id}"),
        ("DELETE", f"/terminals/{terminal_id}"),
    ):
        body = {"cols": 80} if method == "POST" else {}
        answer = daemon.ask("ben", method, path, **body)
        assert answer.status_code == 404, (method, path, answer.text)
        assert str(anna.home) not in answer.text
    with (
        pytest.raises(InvalidStatus) as refused,
        attached(daemon, "ben", terminal_id),
    ):
        pass
    assert refused.value.response.status_code == 404
    for path in ("/executors", "/terminals"):
        assert terminal_id not in daemon.ask("ben", "GET", path).text
        assert terminal_id in daemon.ask("anna", "GET", path).text
    with attached(daemon, "anna", terminal_id) as connection:
        assert f"me={anna.uid}" in run(connection, "echo me=$(id -u)"), "nobody was harmed"


def test_neither_gets_at_the_others_things_from_inside_a_terminal(daemon, anna, ben):
    opened = {
        name: open_terminal(daemon, name, begin(daemon, name, user))
        for name, user in (("anna", anna), ("ben", ben))
    }
    sockets = [str(path) for path in Path(daemon.home).rglob("*.sock")]
    assert sockets, "executors have sockets"
    pids = {}
    for name, terminal_id in opened.items():
        with attached(daemon, name, terminal_id) as connection:
            said = run(connection, "echo pid=$$=$PPID=")
            shell, executor = re.findall(r"pid=(\d+)=(\d+)=", said)[0]
            pids[name] = (shell, executor)
    python = daemon.site.machine.python
    for name, other, user in (("anna", "ben", anna), ("ben", "anna", ben)):
        script = user.home / "snoop.py"
        script.write_text(SNOOP)
        script.chmod(0o644)
        for pid in pids[other]:
            arguments = " ".join([str(daemon.home), pid, str(daemon.port), *sockets])
            with attached(daemon, name, opened[name]) as connection:
                said = run(connection, f"echo; {python} {script} {arguments}")
            told = [line for line in said.split() if line.isupper() and line.isalpha()]
            assert set(told) == {"HTTP"}, said
            assert "HTTP HTTP/1.1 401" in said, "and without a token the interface is closed"
    with attached(daemon, "ben", opened["ben"]) as connection:
        assert f"pid={pids['ben'][0]}=" in run(connection, "echo pid=$$="), "nobody was harmed"


def test_closing_ends_processes_that_hid_as_the_other_user(daemon, anna):
    terminal_id = open_terminal(daemon, "anna", begin(daemon, "anna", anna))
    with attached(daemon, "anna", terminal_id) as connection:
        run(connection, "setsid nohup sleep 1000 >/dev/null 2>&1 & true")
        until(lambda: "sleep" in names_of(anna))
        assert daemon.ask("anna", "DELETE", f"/terminals/{terminal_id}").status_code == 204
    assert "sleep" not in names_of(anna)
    records = daemon.ask("owner", "GET", "/audit?action=executor.ended").json()["items"]
    assert [each["detail"]["survivors"] for each in records] == [0]


def test_who_is_disabled_has_no_shell_any_more(daemon, anna):
    terminal_id = open_terminal(daemon, "anna", begin(daemon, "anna", anna))
    with attached(daemon, "anna", terminal_id) as connection:
        run(connection, "setsid nohup sleep 1000 >/dev/null 2>&1 & true")
        until(lambda: "sleep" in names_of(anna))
        annas_id = daemon.ask("anna", "GET", "/auth/me").json()["user_id"]
        assert daemon.ask("owner", "PATCH", f"/users/{annas_id}", disabled=True).is_success
        until(lambda: not names_of(anna) & {"sh", "sleep"})


def test_a_daemon_that_was_killed_leaves_nobody_in_a_shell_of_who_they_were(site, anna, ben):
    """It was killed between storing another Unix user for somebody and ending what they had."""
    with people_site(site) as daemon:
        terminal_id = open_terminal(daemon, "anna", begin(daemon, "anna", anna))
        with attached(daemon, "anna", terminal_id) as connection:
            run(connection, "sleep 1000 & true")
            until(lambda: "sleep" in names_of(anna))
            daemon.process.kill()
            daemon.process.wait()
    with contextlib.closing(sqlite3.connect(daemon.home / "agor.db")) as database, database:
        database.execute("UPDATE users SET unix_username = ? WHERE name = 'anna'", (ben.name,))
    with people_site(site) as daemon:
        path = f"/terminals/{terminal_id}"
        until(lambda: daemon.ask("anna", "GET", path).json()["status"] == "ended")
        assert "anna is another Unix user now" in daemon.ask("anna", "GET", path).json()["how"]
        assert "sleep" not in names_of(anna)

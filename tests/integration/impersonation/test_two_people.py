"""Two people with an account and a Unix user each: what is one's stays closed to the other.

By any route of the interface, and from inside an executor. Worktrees are in `test_workspaces`.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agor.daemon.api.routes import ROUTES
from tests.integration.impersonation.people_site import PeopleSite, people_site
from tests.integration.processes import PATIENCE
from tests.integration.unix_users import TestUser, processes_of, status_of

KEYS = {"anna": "sk-of-anna-0123456789", "ben": "sk-of-ben-9876543210"}
#: Prints what it could get at, a line each; what it could not is silent.
SNOOP = r"""
import glob, os, pathlib, signal, socket, sys
home, other_pid, port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for place in (home, f"{home}/agor.db", f"{home}/token", f"{home}/master.key", f"{home}/run"):
    try:
        print("READ", place, os.listdir(place) if os.path.isdir(place) else open(place).read(4))
    except OSError:
        pass
for path in glob.glob(f"{home}/**/*.sock", recursive=True) + sys.argv[4:]:
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        print("CONNECTED", path)
    except OSError:
        pass
for name in ("environ", "mem", "fd", "cwd", "maps"):
    path = pathlib.Path(f"/proc/{other_pid}/{name}")
    try:
        print("PROC", name, os.readlink(path) if name == "cwd" else
              os.listdir(path) if name == "fd" else path.open("rb").read(4))
    except OSError:
        pass
try:
    os.kill(other_pid, signal.SIGTERM)
    print("SIGNALLED")
except OSError:
    pass
with socket.create_connection(("127.0.0.1", port)) as http:
    http.sendall(b"GET /sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    print("HTTP", http.recv(12).decode())
"""


@pytest.fixture
def daemon(site) -> Iterator[PeopleSite]:
    with people_site(site) as running:
        yield running


def begin(daemon: PeopleSite, who: str, user: TestUser) -> str:
    """Give somebody a key and a session in their own home."""
    kept = daemon.ask(who, "PUT", "/credentials/ANTHROPIC_API_KEY", value=KEYS[who])
    assert kept.is_success, kept.text
    made = daemon.made(who, "/sessions", agentic_tool="scripted", workspace=str(user.home))
    session_id: str = made["session_id"]
    return session_id


def executor_pid(daemon: PeopleSite, who: str, session_id: str) -> int:
    """The process of somebody's executor, as the executor itself tells it."""
    _, said = daemon.run(who, session_id, "sh", "-c", "echo $PPID")
    return int("".join(filter(str.isdigit, said.splitlines()[-1])))


def test_neither_gets_at_the_others_things_from_inside_an_executor(daemon, anna, ben):
    sessions = {"anna": begin(daemon, "anna", anna), "ben": begin(daemon, "ben", ben)}
    pids = {name: executor_pid(daemon, name, sessions[name]) for name in sessions}
    sockets = [str(path) for path in Path(daemon.home).rglob("*.sock")]
    assert sockets, "executors have sockets"
    python = str(daemon.site.machine.python)
    for name, other in (("anna", "ben"), ("ben", "anna")):
        told, said = daemon.run(
            name, sessions[name], python, "-c", SNOOP, str(daemon.home), str(pids[other]),
            str(daemon.port), *sockets,
        )  # fmt: skip
        assert told["status"] == "completed", said
        assert said.splitlines() == ["HTTP HTTP/1.1 401"], (
            "and without a token the interface is closed"
        )
    assert executor_pid(daemon, "ben", sessions["ben"]) == pids["ben"], "nobody was harmed"


def fetched(daemon: PeopleSite, who: str, session_id: str) -> dict[str, Any]:
    """Have a session's agent ask for the key; the end of its task."""
    script = json.dumps([{"key": "ANTHROPIC_API_KEY"}])
    task = daemon.made(who, f"/sessions/{session_id}/prompt", prompt=script)
    path = f"/tasks/{task['task_id']}"
    until(lambda: daemon.ask(who, "GET", path).json()["ended_at"] is not None)
    told: dict[str, Any] = daemon.ask(who, "GET", path).json()
    return told


def test_each_ones_agent_gets_their_own_key_also_when_the_other_prompts(daemon, anna, ben):
    sessions = {"anna": begin(daemon, "anna", anna), "ben": begin(daemon, "ben", ben)}
    for name in sessions:
        assert fetched(daemon, name, sessions[name])["status"] == "completed"
    bens_id = daemon.ask("ben", "GET", "/auth/me").json()["user_id"]
    share = f"/sessions/{sessions['anna']}/shares/{bens_id}"
    assert daemon.ask("anna", "PUT", share, access="prompt").is_success
    assert fetched(daemon, "ben", sessions["anna"])["status"] == "completed"
    found = daemon.ask("owner", "GET", "/audit?action=credential.delivered").json()["items"]
    given = [(each["actor"], each["detail"]["last_four"]) for each in reversed(found)]
    assert given == [("anna", "6789"), ("ben", "3210"), ("anna", "6789")]


def test_neither_reaches_the_others_things_by_any_route(daemon, anna, ben):
    session_id = begin(daemon, "anna", anna)
    begin(daemon, "ben", ben)
    task_id = daemon.run("anna", session_id, "echo", "a secret of hers")[0]["task_id"]
    annas_id = daemon.ask("anna", "GET", "/auth/me").json()["user_id"]
    names = {"session_id": session_id, "task_id": task_id, "user_id": annas_id}
    tried = 0
    for route in ROUTES:
        wanted = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
        if not wanted or not set(wanted) <= set(names) or route.method == "WEBSOCKET":
            continue
        path = route.path.format(**names)
        body: dict[str, Any] = {} if route.body is None else {"prompt": "x"}
        answer = daemon.ask("ben", route.method, path, **body)
        assert answer.status_code in (403, 404, 422), (route.name, answer.text)
        assert "a secret of hers" not in answer.text
        tried += 1
    assert tried >= 15
    for path in ("/sessions", "/permissions", "/executors", "/credentials", "/tokens", "/users"):
        text = daemon.ask("ben", "GET", f"{path}?whose=all" if path == "/sessions" else path).text
        for hers in (session_id, task_id, annas_id, str(anna.home), "6789"):
            assert hers not in text, path


def names_of(user: TestUser) -> set[str]:
    """The names of what runs as a user now."""
    return {status_of(pid).get("Name", "").strip() for pid in processes_of(user.uid)}


def until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline


def test_a_daemon_that_was_killed_leaves_nobody_in_executors_of_who_they_were(site, anna, ben):
    """It was killed between storing another Unix user for somebody and ending what they had."""
    with people_site(site) as daemon:
        session_id = begin(daemon, "anna", anna)
        script = json.dumps([{"text": "on"}, {"run": ["sleep", "1000"]}])
        task = daemon.made("anna", f"/sessions/{session_id}/prompt", prompt=script)
        until(lambda: "sleep" in names_of(anna))
        daemon.process.kill()
        daemon.process.wait()
    with contextlib.closing(sqlite3.connect(daemon.home / "agor.db")) as database, database:
        database.execute("UPDATE users SET unix_username = ? WHERE name = 'anna'", (ben.name,))
    with people_site(site) as daemon:
        path = f"/tasks/{task['task_id']}"
        until(lambda: daemon.ask("anna", "GET", path).json()["ended_at"] is not None)
        told = daemon.ask("anna", "GET", path).json()
        assert (told["status"], told["error"]["message"]) == (
            "stopped", "anna is another Unix user now",
        )  # fmt: skip
        assert "sleep" not in names_of(anna)

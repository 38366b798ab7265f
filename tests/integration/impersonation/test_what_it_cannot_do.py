"""What an executor of another Unix user cannot read, signal, reach or know."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tests.integration.impersonation.test_two_people import until
from tests.integration.processes import command_line_and_environment
from tests.integration.unix_users import memory_holds, parent_of, processes_of

CONNECT = """
import socket, sys
for path, kind in zip(sys.argv[1::2], sys.argv[2::2]):
    with socket.socket(socket.AF_UNIX, getattr(socket, kind)) as s:
        try:
            s.connect(path)
            print("connected")
        except OSError as error:
            print(type(error).__name__)
"""


def test_an_executor_can_neither_read_nor_enter_what_is_the_daemons(site, pool, anna):
    pool.ask("acquire", session="a", unix_user=anna.name)
    private = site.folder / "secret"
    private.write_text("of the daemon\n")
    home = "/root" if site.way == "setuid" else str(site.machine.daemon.home)
    for path in (home, str(site.folder), str(pool.runtime), str(pool.runtime / "executors")):
        assert "Permission denied" in pool.run("a", "sh", "-c", f"ls {path} 2>&1 || true")
    assert "Permission denied" in pool.run("a", "sh", "-c", f"cat {private} 2>&1 || true")
    assert "Permission denied" in pool.run("a", "sh", "-c", f"echo x 2>&1 >>{private} || true")
    assert private.read_text() == "of the daemon\n"
    seen = pool.run("a", "sh", "-c", f"cat /proc/{pool.pid}/environ 2>&1 || true")
    assert "Permission denied" in seen


def test_an_executor_can_signal_neither_the_daemon_nor_another_users_executor(pool, anna, ben):
    pool.ask("acquire", session="a", unix_user=anna.name)
    other = pool.ask("acquire", session="b", unix_user=ben.name)
    launcher = parent_of(other["keeper"])
    victims = (pool.pid, other["executor"], other["keeper"], launcher, parent_of(launcher))
    for victim in victims:
        said = pool.run("a", "sh", "-c", f"kill -KILL {victim} 2>&1 || true")
        assert "not permitted" in said, victim
    assert pool.run("b", "echo", "still here") == "still here\n"


def test_an_executor_can_connect_to_no_socket_of_the_daemons(site, pool, anna, ben):
    own = pool.ask("acquire", session="a", unix_user=anna.name)
    same_user = pool.ask("acquire", session="a2", unix_user=anna.name)
    other = pool.ask("acquire", session="b", unix_user=ben.name)
    # Each user has one, or two while one takes over from the other.
    launchers = [*pool.runtime.glob("launchers/*.sock"), *pool.runtime.glob("preloaded/*.sock")]
    assert len(launchers) >= 2
    stream = [one["socket"] for one in (own, same_user, other)]
    targets = [word for path in stream for word in (path, "SOCK_STREAM")]
    targets += [word for path in launchers for word in (str(path), "SOCK_SEQPACKET")]
    said = pool.run("a", str(site.machine.python), "-c", CONNECT, *targets)
    assert said.split() == ["PermissionError"] * (3 + len(launchers))


def test_two_users_cannot_see_each_others_files(pool, anna, ben):
    for user in (anna, ben):
        pool.ask("acquire", session=user.name, unix_user=user.name)
        pool.run(user.name, "sh", "-c", 'echo mine > "$HOME/notes"')
        assert (user.home / "notes").stat().st_uid == user.uid
    for user, other in ((anna, ben), (ben, anna)):
        said = pool.run(user.name, "sh", "-c", f"cat {other.home}/notes 2>&1 || true")
        assert "Permission denied" in said
        assert pool.run(user.name, "sh", "-c", 'cat "$HOME/notes"') == "mine\n"


def test_nothing_of_the_daemons_environment_reaches_an_executor(site, pool, anna):
    acquired = pool.ask("acquire", session="a", unix_user=anna.name)
    canary = site.canary.encode()
    assert canary in command_line_and_environment(pool.pid), "it is there to be found"
    assert memory_holds(pool.pid, canary), "and we can find it"
    pool.ask("prompt", session="a", task="t", cwd="/", script=[
        {"run": ["sh", "-c", "sleep 1000 & echo started; wait"]}
    ])  # fmt: skip
    pool.ask("said", task="t", text="started")
    launcher = parent_of(acquired["keeper"])
    below = processes_of(anna.uid)
    assert {acquired["executor"], acquired["keeper"], launcher} < below
    assert len(below) in (5, 6), "and the shell, what it started, a keeper that waits by now"
    above = {parent_of(launcher)} - {pool.pid}
    assert len(above) == (1 if site.way == "sudo" else 0), "sudo itself"
    for pid in below | above:
        assert canary not in command_line_and_environment(pid)
        assert b"AGOR_CANARY" not in command_line_and_environment(pid)
        assert not memory_holds(pid, canary)


def test_executors_share_no_socket_and_no_pipe_with_each_other_or_their_launcher(site, anna):
    pool = site.pool(spare_executors=1)
    pool.ask("open")
    acquired = [pool.ask("acquire", session=name, unix_user=anna.name) for name in "abc"]
    launcher = parent_of(acquired[0]["keeper"])

    def nothing_is_shared() -> bool:
        held = [channels_of(pid) for pid in (launcher, *(one["executor"] for one in acquired))]
        return all(held) and len(set.union(*held)) == sum(map(len, held))

    # What a launcher was sent for an executor is its own until it has told that it was started.
    until(nothing_is_shared)


def channels_of(pid: int) -> set[str]:
    """Tell which sockets and pipes a process has open."""
    links = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.append(str(entry.readlink()))
    return {link for link in links if link.startswith(("socket:", "pipe:"))}

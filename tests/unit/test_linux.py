"""Processes by name and not by number: families, marks, and ends of whole trees."""

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from agor.linux import (
    children,
    family,
    is_alive,
    kill_family,
    kill_session,
    marked,
    process_of,
    send,
    session,
)
from agor.protocol.launching import Process

MARK = str(uuid.uuid4())


@pytest.fixture
def tree():
    """A shell with a child and a grandchild that left its session."""
    script = "sleep 901 & setsid sh -c 'sleep 902 & wait' & echo up; wait; exec sleep 903"
    shell = subprocess.Popen(
        ["sh", "-c", script], stdout=subprocess.PIPE, env={"PATH": os.environ["PATH"], "M": MARK}
    )
    assert shell.stdout is not None
    shell.stdout.readline()
    root = process_of(shell.pid)
    assert root is not None
    yield root
    kill_family([root])
    shell.communicate()


def grown(root: Process, count: int) -> list[Process]:
    """Wait until a tree has this many members."""
    for _ in range(1000):
        if len(found := family([root])) == count:
            return found
    raise AssertionError(f"{len(family([root]))} processes")


def test_a_family_is_all_that_descends_however_it_hides(tree):
    members = grown(tree, 4)
    assert members[0] == tree
    assert {child.pid for child in children(tree.pid)} <= {member.pid for member in members}


def test_killing_a_family_leaves_nobody_and_counts(tree):
    members = grown(tree, 4)
    assert len(kill_family([tree])) == 4
    for member in members:
        for _ in range(1_000_000):
            if not is_alive(member):
                break
        assert not is_alive(member)


def test_those_to_spare_are_spared(tree):
    grown(tree, 4)
    assert len(kill_family([tree], spare=[tree])) == 3
    assert is_alive(tree)


@pytest.fixture
def led():
    """The leader of a session with a job in a group of its own, and one that left the session."""
    script = "setsid sleep 902 & set -m; sleep 901 & echo up; wait; exec sleep 903"
    shell = subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    assert shell.stdout is not None
    shell.stdout.readline()
    root = process_of(shell.pid)
    assert root is not None
    members = grown(root, 3)
    yield root
    for member in members:
        send(member, signal.SIGKILL)
    shell.communicate()


def left(root: Process) -> set[Process]:
    """Wait until one of the three has left the session."""
    for _ in range(1000):
        if len(found := set(session(root.pid))) == 2:
            return found
    raise AssertionError(f"{len(session(root.pid))} processes")


def test_a_session_is_all_of_its_groups_and_nobody_who_left_it(led):
    gone = set(family([led])) - left(led)
    assert len(gone) == 1
    assert os.getpgid(led.pid) == led.pid
    assert {os.getpgid(member.pid) for member in session(led.pid)} > {led.pid}


def test_killing_a_session_leaves_nobody_in_it_and_spares_who_left_it(led):
    members = left(led)
    (other,) = set(family([led])) - members
    kill_session(led.pid)
    for member in members:
        for _ in range(1_000_000):
            if not is_alive(member):
                break
        assert not is_alive(member)
    assert is_alive(other)


def test_a_mark_is_found_in_the_environment(tree):
    members = grown(tree, 4)
    assert set(marked("M", MARK)) == set(members)
    assert marked("M", MARK[:-1]) == []


@pytest.fixture
def restless():
    """A program that does nothing but become itself again."""
    script = 'exec sh -c "$0" "$0"'
    environment = {"PATH": os.environ["PATH"], "M": MARK}
    with subprocess.Popen(["sh", "-c", script, script], env=environment) as shell:
        process = process_of(shell.pid)
        assert process is not None
        yield process
        send(process, signal.SIGKILL)


def test_a_mark_is_found_on_a_program_that_is_just_becoming_another(restless):
    """In that moment its environment reads as empty: one look in ten would miss it."""
    assert all(marked("M", MARK) == [restless] for _ in range(300))


def test_a_program_without_an_environment_has_no_mark():
    with subprocess.Popen(["/bin/sleep", "901"], env={}) as bare:
        found = process_of(bare.pid)
        assert found is not None
        assert found not in marked("M", "")
        bare.kill()


def test_a_number_that_is_used_again_is_somebody_else():
    own = process_of(os.getpid())
    assert own is not None
    assert is_alive(own)
    other = Process(own.pid, own.started + 1)
    assert not is_alive(other)
    assert not send(other, 9)


def test_who_is_gone_or_was_never_there_is_not_alive():
    child = subprocess.Popen(["true"])
    named = process_of(child.pid)
    assert named is not None
    child.wait()
    assert not is_alive(named)
    assert process_of(2**22 + 1) is None


#: Its first thread ends, which makes it look like a zombie, and another one goes on.
HEADLESS = """
import ctypes, threading, time
threading.Thread(target=lambda: (print("up", flush=True), time.sleep(904))).start()
ctypes.CDLL(None).syscall(60, 0)
"""


def test_who_lives_on_in_another_thread_is_alive_is_family_and_is_killed():
    headless = subprocess.Popen([sys.executable, "-c", HEADLESS], stdout=subprocess.PIPE)
    assert headless.stdout is not None
    headless.stdout.readline()
    process = process_of(headless.pid)
    assert process is not None
    stat = Path(f"/proc/{headless.pid}/stat")
    while b") Z" not in stat.read_bytes():
        pass
    assert is_alive(process)
    assert process in children(os.getpid())
    assert kill_family([process]) == {process}
    assert headless.wait(10) == -9
    headless.stdout.close()


def test_a_process_that_forbids_dumps_does_so_for_itself_alone() -> None:
    ask = "from agor import linux; dumpable = linux._libc.prctl(3, 0, 0, 0, 0); print(dumpable)"
    code = (
        "import subprocess, sys; from agor import linux; linux.forbid_dumps();"
        f"subprocess.run([sys.executable, '-c', {ask!r}], check=True);"
        "print(linux._libc.prctl(3, 0, 0, 0, 0))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["1", "0"]

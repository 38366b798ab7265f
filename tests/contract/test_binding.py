"""Binding a path: what is taken over, what is left alone, what is refused."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agor.errors import SocketInUse, SocketUnusable
from agor.rpc import unix
from agor.rpc.unix import MAX_PATH, BoundSocket
from tests.contract.descriptors import open_files

#: Waits for its turn, binds, says how that went, and holds what it has until it is told to end.
RACER = """
import sys
from agor import logs
from agor.errors import SocketInUse
from agor.rpc import unix
logs.configure("error", "console")
print("ready", flush=True)
sys.stdin.readline()
try:
    bound = unix.bind(sys.argv[1])
    print("won", flush=True)
except SocketInUse:
    print("lost", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "s"


@pytest.fixture
def bound(path: Path) -> Iterator[BoundSocket]:
    made = unix.bind(path)
    yield made
    made.listener.close()


def make_stale(path: Path) -> None:
    """Leave a socket behind as a process that dies does."""
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
        left_behind.listen()


def can_connect(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def test_a_new_socket_is_for_its_user_alone_and_the_mask_is_as_before(path: Path):
    mask = os.umask(0o022)
    try:
        made = unix.bind(path)
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert can_connect(path)
    made.listener.close()


def test_a_stale_socket_is_taken_over(path: Path):
    make_stale(path)
    assert not can_connect(path)
    made = unix.bind(path)
    assert can_connect(path)
    made.listener.close()


def test_a_live_socket_is_refused_and_left_alone(bound: BoundSocket):
    before = bound.path.lstat().st_ino
    with pytest.raises(SocketInUse) as caught:
        unix.bind(bound.path)
    assert caught.value.hint
    assert bound.path.lstat().st_ino == before
    assert can_connect(bound.path)


def test_a_live_socket_whose_queue_is_full_counts_as_live(path: Path):
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(path))
        busy.listen(0)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        for client in waiting:
            client.setblocking(False)
            client.connect_ex(str(path))
        with pytest.raises(SocketInUse):
            unix.bind(path)
        for client in waiting:
            client.close()
    assert path.exists()


@pytest.mark.parametrize("kind", ["file", "folder", "dangling link", "link to a socket"])
def test_what_is_not_a_socket_is_refused_and_left_alone(path: Path, kind: str):
    if kind == "file":
        path.write_text("precious")
    elif kind == "folder":
        path.mkdir()
    else:
        target = path.with_name("target")
        path.symlink_to(target)
        if kind == "link to a socket":
            make_stale(target)
    with pytest.raises(SocketUnusable) as caught:
        unix.bind(path)
    assert not isinstance(caught.value, SocketInUse)
    assert os.path.lexists(path)


def test_a_path_that_is_too_long_is_refused_before_anything_is_made(path: Path):
    folder = path.parent
    longest = folder / ("x" * (MAX_PATH - len(os.fsencode(folder)) - 1))
    too_long = folder / (longest.name + "x")
    with pytest.raises(SocketUnusable, match="too long") as caught:
        unix.bind(too_long)
    assert caught.value.hint
    assert list(folder.iterdir()) == []
    made = unix.bind(longest)
    assert can_connect(longest)
    made.listener.close()


def test_a_path_is_measured_in_bytes(path: Path):
    with pytest.raises(SocketUnusable, match="too long"):
        unix.bind(path.parent / ("ü" * 60))


def test_a_folder_that_is_not_there_is_named(path: Path):
    with pytest.raises(SocketUnusable, match="no_such_folder"):
        unix.bind(path.parent / "no_such_folder" / "s")


def test_a_refusal_leaves_no_descriptor_behind(path: Path, bound: BoundSocket):
    before = open_files()
    for bad in (bound.path, path.parent, path.parent / "none" / "s", path.parent / ("x" * 200)):
        with pytest.raises(SocketUnusable):
            unix.bind(bad)
    assert open_files() == before


def test_of_processes_that_race_for_a_stale_socket_exactly_one_wins(path: Path):
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(4)
    ]
    try:
        for racer in racers:
            assert out(racer) == b"ready\n"
        make_stale(path)
        for racer in racers:
            say(racer)
        assert sorted(out(racer) for racer in racers) == [b"lost\n"] * 3 + [b"won\n"]
        assert can_connect(path)
    finally:
        for racer in racers:
            racer.communicate(b"\n", timeout=20)


def out(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def say(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()


def test_removing_a_socket_removes_its_path_once(bound: BoundSocket):
    bound.remove()
    assert not bound.path.exists()
    bound.remove()


def test_a_socket_that_another_one_replaced_is_left_alone(bound: BoundSocket):
    bound.path.unlink()
    other = unix.bind(bound.path)
    bound.remove()
    assert can_connect(bound.path)
    other.listener.close()


def test_a_socket_that_was_taken_over_after_ours_closed_is_left_alone(bound: BoundSocket):
    # The kernel may give the new socket the number of the old one's inode.
    bound.listener.close()
    other = unix.bind(bound.path)
    bound.remove()
    assert can_connect(bound.path), "another one's live socket was removed"
    other.listener.close()

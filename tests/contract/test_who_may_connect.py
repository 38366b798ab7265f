"""Only the user who made the listening socket may connect, and root; whatever the file's mode."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agor.rpc import Peer, unix
from tests.contract.connections import Connections
from tests.contract.service import SUBTRACT, Operands, Service
from tests.contract.waiting import soon

NOBODY, SOMEBODY = 65534, 65533

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")

#: Becomes a user, connects, asks once, and prints what comes back until the end.
VISITOR = """
import contextlib, os, socket, sys
uid, path = int(sys.argv[1]), sys.argv[2]
os.setgroups([]); os.setgid(uid); os.setuid(uid)
sock = socket.socket(socket.AF_UNIX)
try:
    sock.connect(path)
except PermissionError:
    sys.exit(13)
with contextlib.suppress(OSError):  # it may be closed already
    sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"subtract","params":[42,23]}\\n')
    sock.shutdown(socket.SHUT_WR)
with contextlib.suppress(OSError):
    while data := sock.recv(65536):
        sys.stdout.buffer.write(data)
"""

#: Becomes a user, makes a listening socket, and hands it back through an inherited one.
MAKER = """
import os, socket, sys
uid, path, way_back = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
os.setgroups([]); os.setgid(uid); os.setuid(uid)
made = socket.socket(socket.AF_UNIX)
made.bind(path)
made.listen()
socket.send_fds(socket.socket(fileno=way_back), [b"x"], [made.fileno()])
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody can enter, unlike pytest's own."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o777)
    yield made
    shutil.rmtree(made)


@pytest.fixture
async def roots_socket(folder: Path, service: Service, connections: Connections) -> Path:
    bound = unix.bind(folder / "s")
    connections.listen(bound.listener, lambda: Peer(service.routes))
    return bound.path


async def visit(uid: int, path: Path) -> tuple[int, list[Any]]:
    """Connect as another user; return the exit code and the lines that came back."""
    process = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-I", "-c", VISITOR, str(uid), str(path)],
        stdout=subprocess.PIPE,
        timeout=20,
        check=False,
    )
    return process.returncode, [json.loads(line) for line in process.stdout.splitlines()]


def inherit_from(uid: int, path: Path) -> socket.socket:
    """Let another user make a listening socket, and inherit it."""
    here, there = socket.socketpair()
    with here, there:
        subprocess.run(
            [sys.executable, "-I", "-c", MAKER, str(uid), str(path), str(there.fileno())],
            pass_fds=[there.fileno()],
            timeout=20,
            check=True,
        )
        _, (fd,), _, _ = socket.recv_fds(here, 1, 1)
    return unix.inherit(fd)


async def test_a_socket_is_made_for_its_user_alone(roots_socket: Path):
    assert stat.S_IMODE(roots_socket.stat().st_mode) == 0o600
    code, answers = await visit(NOBODY, roots_socket)
    assert (code, answers) == (13, [])


async def test_another_user_is_turned_away_even_if_the_file_lets_everybody_in(roots_socket: Path):
    roots_socket.chmod(0o666)
    _, answers = await visit(NOBODY, roots_socket)
    assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [(None, -32002)]


async def test_turning_somebody_away_leaves_the_others_connected(
    roots_socket: Path, connections: Connections
):
    roots_socket.chmod(0o666)
    here = await connections.peer(roots_socket)
    for _ in range(3):
        await visit(NOBODY, roots_socket)
    assert await soon(here.call(SUBTRACT, Operands(42, 23))) == 19


async def test_the_user_who_made_an_inherited_socket_may_connect_and_so_may_root(
    folder: Path, service: Service, connections: Connections
):
    path = folder / "s"
    connections.listen(inherit_from(NOBODY, path), lambda: Peer(service.routes))
    path.chmod(0o666)
    for uid in (NOBODY, 0):
        _, answers = await visit(uid, path)
        assert [answer["result"] for answer in answers] == [19]


async def test_nobody_else_may_connect_to_an_inherited_socket(
    folder: Path, service: Service, connections: Connections
):
    path = folder / "s"
    listener = connections.listen(inherit_from(NOBODY, path), lambda: Peer(service.routes))
    path.chmod(0o666)
    _, answers = await visit(SOMEBODY, path)
    assert [answer["error"]["code"] for answer in answers] == [-32002]
    assert listener.connections == 0


def test_the_kernel_tells_who_is_at_the_other_end():
    here, there = socket.socketpair()
    with here, there:
        assert unix.peer_uid(here) == os.getuid()

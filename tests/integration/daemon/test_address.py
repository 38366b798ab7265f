"""Where a daemon listens: the same port again if possible, and never a stranger with its token."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agor.cli import background
from agor.client import Client
from agor.client.address import Address, Find, of_home
from agor.client.signing_in import make_token
from agor.errors import DaemonNotRunning
from agor.home import Home
from agor.protocol.people import NewToken
from tests.integration.daemon.client_steps import begin
from tests.integration.daemon.daemon_process import DaemonProcess, running_daemon
from tests.integration.processes import PATIENCE

Stranger = Callable[[int], socket.socket]


@pytest.fixture
def own() -> Iterator[DaemonProcess]:
    with running_daemon() as one:
        yield one


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    """Start another program that listens on a port, on this machine."""
    made: list[socket.socket] = []

    def listen(port: int) -> socket.socket:
        made.append(socket.create_server(("127.0.0.1", port)))
        made[-1].settimeout(PATIENCE)
        return made[-1]

    yield listen
    for each in made:
        each.close()


# ── the port ─────────────────────────────────────────────────────────────────────────────────────


def test_after_a_restart_or_a_crash_it_listens_on_the_same_port(own: DaemonProcess) -> None:
    before = own.url
    own.restart()
    assert own.url == before
    own.kill()
    own.start()
    assert own.url == before


def test_if_that_port_is_taken_it_listens_on_another(
    own: DaemonProcess, stranger: Stranger
) -> None:
    taken = own.port
    own.stop()
    stranger(taken)
    own.start()
    other = own.port
    assert other != taken
    own.restart()
    assert own.port == other, "and stays there"


@pytest.mark.parametrize("damage", [b"", b"port\n", b"-1\n", b"70000\n", b"\xff"])
def test_what_is_no_port_in_the_home_is_passed_over(own: DaemonProcess, damage: bytes) -> None:
    own.stop()
    own.home.port_file.write_bytes(damage)
    own.start()
    assert int(own.home.port_file.read_text()) == own.port
    assert own.home.port_file.stat().st_mode & 0o777 == 0o600


# ── strangers ────────────────────────────────────────────────────────────────────────────────────


def dying(own: DaemonProcess, stranger: Stranger, seen: list[socket.socket]) -> Find:
    """Look up the daemon; then, before anybody connects, it dies and a stranger has its port."""

    def find() -> Address:
        address = of_home(own.home)
        port = own.port
        own.kill()
        seen.append(stranger(port))
        return address

    return find


def heard(listener: socket.socket) -> bytes:
    """All that came over the first connection."""
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(PATIENCE)
        return b"".join(iter(lambda: connection.recv(65536), b""))


async def test_a_stranger_on_the_port_of_a_dead_daemon_gets_no_token(
    own: DaemonProcess, stranger: Stranger
) -> None:
    seen: list[socket.socket] = []
    find = dying(own, stranger, seen)
    async with Client(own.url, own.token, attempts=1, find=find) as client:
        with pytest.raises(DaemonNotRunning):
            await client.health()
    assert heard(seen[0]) == b""


async def test_a_stranger_gets_no_token_from_a_feed(own: DaemonProcess, stranger: Stranger) -> None:
    async with own.client() as client:
        session = await begin(client)
    seen: list[socket.socket] = []
    find = dying(own, stranger, seen)
    token, url = own.token, own.url
    async with Client(url, token, reconnect_timeout=0, find=find) as client:
        with pytest.raises(DaemonNotRunning):
            await anext(client.follow(session))
    assert heard(seen[0]) == b""


async def test_a_stranger_gets_no_password(own: DaemonProcess, stranger: Stranger) -> None:
    seen: list[socket.socket] = []
    with pytest.raises(DaemonNotRunning):
        await make_token(dying(own, stranger, seen), "ada", "a password", NewToken(name="x"))
    assert heard(seen[0]) == b""


def test_a_stranger_gets_no_token_from_the_status(stranger: Stranger) -> None:
    listener = stranger(0)
    port = listener.getsockname()[1]

    def ended() -> None:
        raise ConnectionError("it has just ended")

    with pytest.raises(ConnectionError):
        background.ask(f"http://127.0.0.1:{port}", "/health", "a token", check=ended)
    assert heard(listener) == b""


async def test_a_new_daemon_on_the_port_is_looked_up_again(own: DaemonProcess) -> None:
    looks = 0

    def find() -> Address:
        nonlocal looks
        looks += 1
        address = of_home(own.home)
        if looks == 1:
            own.kill()
            own.start()
        return address

    async with Client(own.url, own.token, find=find) as client:
        assert (await client.health()).status == "ok"
    assert looks > 2


def test_the_address_of_a_killed_daemon_is_not_believed(own: DaemonProcess, tmp_path: Path) -> None:
    own.kill()
    assert own.home.description_file.exists()
    with pytest.raises(DaemonNotRunning):
        Client.local(own.home)
    with pytest.raises(DaemonNotRunning):
        Client.local(Home(tmp_path))

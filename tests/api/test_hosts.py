"""Listening beyond this machine: only with accounts, and only by our own names."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from agor.config.keys import build
from agor.daemon.api.gate import Gate, address_of
from agor.daemon.main import Daemon
from agor.errors import BadConfig, Forbidden
from agor.home import Home
from tests.api.people import PASSWORD, add, cheapen
from tests.api.serving import serving


@contextlib.asynccontextmanager
async def listening(folder: Path, host: str, **config: object) -> AsyncIterator[str]:
    home = Home(folder / "home")
    url = f"sqlite:///{home.folder / 'agor.db'}"
    daemon = Daemon(
        build({"execution.use_executor": False, "database.url": url, **config}), home
    )  # fmt: skip
    async with daemon.serving(host, 0) as place:
        yield place


async def status(url: str, host: str | None = None, **headers: str) -> int:
    if host is not None:
        headers["host"] = host
    async with httpx.AsyncClient(trust_env=False) as client:
        return (await client.get(f"{url}/livez", headers=headers)).status_code


async def test_it_is_refused_until_somebody_has_a_password(tmp_path: Path) -> None:
    with pytest.raises(BadConfig) as refused:
        async with listening(tmp_path, "0.0.0.0"):
            pass
    assert "set-password" in str(refused.value.hint)
    async with serving(tmp_path) as served:
        cheapen(served.daemon)
        user_id = (await add(served, "ada", password=PASSWORD))["user_id"]
        await served.ask.patch(f"/users/{user_id}", json={"disabled": True})
    with pytest.raises(BadConfig):
        async with listening(tmp_path, "0.0.0.0"):
            pass
    async with serving(tmp_path) as served:
        await served.ask.patch(f"/users/{user_id}", json={"disabled": False})
    async with listening(tmp_path, "0.0.0.0") as url:
        assert url.startswith("http://127.0.0.1:"), "as this machine reaches it"
        assert await status(url) == 200


@pytest.fixture
async def with_accounts(tmp_path: Path) -> Path:
    async with serving(tmp_path) as served:
        cheapen(served.daemon)
        await add(served, "ada", password=PASSWORD)
    return tmp_path


async def test_on_every_address_it_is_called_by_the_one_that_was_reached(
    with_accounts: Path,
) -> None:
    config = {"daemon.allowed_hosts": ("agor.example", "10.1.2.3")}
    async with listening(with_accounts, "0.0.0.0", **config) as url:
        port = url.rpartition(":")[2]
        reached = f"http://127.0.0.2:{port}"
        for name in (
            "127.0.0.2",
            "127.0.0.1",
            "localhost",
            "agor.example",
            "AGOR.example",
            "10.1.2.3",
        ):
            assert await status(reached, f"{name}:{port}") == 200, name
            assert await status(reached, name) == 200, name
        for name in (
            "127.0.0.3",
            "0.0.0.0",
            "evil.example",
            "x.agor.example",
            "agor.example.org",
            "",
        ):
            assert await status(reached, f"{name}:{port}") == 403, name
        assert await status(f"http://127.0.0.3:{port}", f"127.0.0.2:{port}") == 403


async def test_on_both_kinds_of_addresses_too(with_accounts: Path) -> None:
    async with listening(with_accounts, "::") as url:
        port = url.rpartition(":")[2]
        assert url == f"http://[::1]:{port}"
        assert await status(url) == 200
        assert await status(f"http://127.0.0.2:{port}") == 200
        assert await status(f"http://127.0.0.2:{port}", "[::]") == 403


async def test_on_one_address_it_is_called_by_that(with_accounts: Path) -> None:
    async with listening(with_accounts, "127.0.0.9") as url:
        assert url.startswith("http://127.0.0.9:")
        assert await status(url) == 200
        assert await status(url, "127.0.0.8") == 403


# ── the gate by itself ───────────────────────────────────────────────────────────────────────


def lets_in(gate: Gate, **headers: str) -> bool:
    given = {name.encode(): value.encode() for name, value in headers.items()}
    for _ in range(2):  # known names take another way
        try:
            gate.check(given)
        except Forbidden:
            return False
    return True


def test_behind_https_pages_are_of_https() -> None:
    gate = Gate("127.0.0.1", ("agor.example",), https_proxy=True)
    assert lets_in(gate, host="agor.example", origin="https://agor.example")
    assert not lets_in(gate, host="agor.example", origin="http://agor.example")
    assert lets_in(gate, host="localhost:3030", origin="http://localhost:3030")
    assert not lets_in(gate, host="localhost:3030", origin="https://localhost:3030")
    plain = Gate("127.0.0.1", ("agor.example",))
    assert lets_in(plain, host="agor.example", origin="http://agor.example")
    assert not lets_in(plain, host="agor.example", origin="https://agor.example")


def test_what_is_remembered_of_names_is_bounded() -> None:
    gate = Gate("127.0.0.1")
    for port in range(1000):
        assert lets_in(gate, host=f"localhost:{port}")
    assert len(gate._known) <= 64


def test_an_address_is_the_clients_or_what_the_proxy_says() -> None:
    scope = {"client": ("::ffff:10.0.0.1", 5)}
    told = {b"x-forwarded-for": b"1.1.1.1, 2.2.2.2"}
    assert address_of(scope, told, https_proxy=False) == "10.0.0.1"
    assert address_of(scope, told, https_proxy=True) == "2.2.2.2"
    assert address_of(scope, {}, https_proxy=True) == "10.0.0.1"
    assert address_of({"client": None}, {}, https_proxy=False) == ""
    assert len(address_of(scope, {b"x-forwarded-for": b"x" * 9999}, https_proxy=True)) <= 64

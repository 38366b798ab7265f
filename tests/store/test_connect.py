"""From `database.url` to a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from agor.daemon.store import connect
from agor.daemon.store.postgres.sql import translate
from agor.daemon.store.postgres.store import PostgresStore
from agor.daemon.store.sqlite.store import SqliteStore
from agor.errors import BadConfig, StoreError, StoreUnavailable, StoreUnusable
from tests.store.postgres_server import PostgresServer


def test_the_scheme_says_which_database_it_is():
    assert isinstance(connect("sqlite:////var/lib/agor.db"), SqliteStore)
    assert isinstance(connect("postgresql://agor@localhost/agor"), PostgresStore)
    assert isinstance(connect("postgres://agor@localhost/agor"), PostgresStore)


@pytest.mark.parametrize(
    "url", ["", "agor.db", "sqlite://", "sqlite:///", "sqlite:///:memory:", "mysql://root:pw@x/y"]
)
def test_another_url_is_refused_with_an_example_and_is_not_shown(url: str):
    with pytest.raises(BadConfig, match=r"database\.url") as refused:
        connect(url)
    assert "sqlite:////" in (refused.value.hint or "")
    assert "pw" not in str(refused.value)


async def test_an_absolute_path_has_four_slashes_and_its_folder_is_made(tmp_path: Path):
    store = connect(f"sqlite:///{tmp_path}/a folder/100%?#/agor.db")
    await store.open()
    await store.close()
    assert (tmp_path / "a folder" / "100%?#" / "agor.db").exists()


@pytest.mark.parametrize(
    ("url", "kind", "hint"),
    [
        ("{server}&port=1", StoreUnavailable, "runs"),
        ("postgresql://agor:hunter2@127.0.0.1:1/agor", StoreUnavailable, "runs"),
        ("postgresql://agor:hunter2@localhost:port/agor", StoreUnusable, "postgresql://"),
        ("{missing}", StoreUnusable, "createdb"),
    ],
)
async def test_a_server_that_cannot_be_used_is_named_without_the_password(
    postgres: PostgresServer, url: str, kind: type[StoreError], hint: str
):
    filled = url.format(server=postgres.url("postgres"), missing=postgres.url("missing"))
    with pytest.raises(kind) as refused:
        await connect(filled).open()
    assert hint in (refused.value.hint or "")
    assert "hunter2" not in str(refused.value)


def test_values_are_numbered_for_postgresql():
    assert translate("SELECT 1") == "SELECT 1"
    assert translate("a = ? AND (b, c) < (?, ?)") == "a = $1 AND (b, c) < ($2, $3)"

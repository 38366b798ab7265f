"""The table of settings agrees with what it is for, and with the page that explains it."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from agor.config import Config
from agor.config.keys import KEYS, LimitsConfig
from agor.daemon.pool.settings import PoolSettings
from agor.environments import registry
from agor.protocol.limits import ResourceLimits

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"


def test_every_setting_is_on_the_reference_page_as_it_is_in_the_table():
    row = re.compile(r"^\| `([a-z_.]+)` \| (.*?) \| (.*?) \| (.*) \|$", re.MULTILINE)
    rows = row.findall(PAGE.read_text(encoding="utf-8"))
    expected = [
        (
            key.name,
            f"`{key.kind.show(key.default)}`" if key.default is not None else "none",
            key.kind.allowed,
            f"{key.meaning[0].upper()}{key.meaning[1:]}.",
        )
        for key in KEYS.values()
    ]
    assert rows == expected


def test_the_defaults_are_those_of_the_pool(tmp_path: Path):
    pool, execution = PoolSettings(runtime=tmp_path), Config().execution
    for name in ("run_as_unix_user", "executor_unix_user", "max_executors", "max_waiting"):
        assert getattr(execution, name) == getattr(pool, name)
    for name in ("idle_timeout", "orphan_timeout", "connection_timeout", "stop_timeout"):
        assert getattr(execution, f"{name}_ms") == getattr(pool, name) * 1000
    for name in ("ping_interval", "ping_timeout"):
        assert getattr(execution, f"{name}_ms") == getattr(pool, name) * 1000
    assert execution.spare_executors == pool.spare_executors
    assert execution.socket_path_template == pool.socket_path_template
    assert execution.max_line_bytes == pool.max_line
    assert execution.outbox_bytes == pool.outbox_bytes
    assert execution.limits.resources == pool.limits


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("memory", ["16M", "1048576T"]),
        ("cpus", ["0.01", "10000"]),
        ("processes", ["1", str(2**22)]),
        ("open_files", ["16", str(2**30)]),
        ("wall_time", ["1", str(2**31)]),
    ],
)
def test_executors_can_be_given_every_limit_that_is_allowed(name: str, values: list[str]):
    kind = KEYS[f"execution.limits.{name}"].kind
    for value in values:
        limits = LimitsConfig(**{name: kind.read(kind.parse(value))}).resources
        told = msgspec.json.encode(limits)
        assert msgspec.json.decode(told, type=ResourceLimits) == limits


def test_every_limit_can_be_set():
    names = {name.rpartition(".")[2] for name in KEYS if name.startswith("execution.limits.")}
    assert names == set(ResourceLimits.__struct_fields__)


def test_every_kind_of_environment_can_be_chosen():
    kind = KEYS["execution.environment"].kind
    for name in registry._KINDS:
        assert kind.read(name) == name

"""The reference page says all that there is."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from agor.daemon.api.problems import STATUSES
from agor.daemon.api.route import WEBSOCKET, Route
from agor.daemon.api.routes import ROUTES
from agor.daemon.metrics import Metrics

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
ALL = [pytest.param(route, id=route.name) for route in ROUTES]


def members(form: object) -> set[str]:
    """Name every member of a form and of the forms in it."""
    if form in (None, str, dict):
        return set()
    _, components = msgspec.json.schema_components([form])
    return {name for schema in components.values() for name in schema.get("properties", {})}


@pytest.mark.parametrize("route", ALL)
def test_every_route_and_each_of_its_members_is_documented(route: Route) -> None:
    address = route.path if route.method == WEBSOCKET else f"{route.method} {route.path}"
    assert f"`{address}" in PAGE or f" `{address}" in PAGE
    for form in (route.query, route.body, route.result, *route.also.values()):
        for member in members(form):
            assert f"`{member}`" in PAGE, member


def test_every_figure_is_documented() -> None:
    metrics = Metrics()
    registry: CollectorRegistry = metrics.registry
    for family in registry.collect():
        if family.name.startswith("agor_"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            assert f"| `{name}` |" in PAGE


def test_every_status_of_an_error_is_documented() -> None:
    for status, _ in STATUSES.values():
        assert f"\n| {status}" in PAGE

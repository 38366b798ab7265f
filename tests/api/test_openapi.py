"""The document that the interface gives of itself: valid, complete, and true."""

from __future__ import annotations

import re
from html import escape
from html.parser import HTMLParser
from typing import Any

import jsonschema_rs
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from agor.daemon.api import openapi
from agor.daemon.api.route import WEBSOCKET, Route
from agor.daemon.api.routes import ROUTES
from agor.errors import Unauthenticated
from tests.api.serving import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")

DOCUMENT = openapi.describe(ROUTES)
VISIBLE = [pytest.param(route, id=route.name) for route in ROUTES if route.method != WEBSOCKET]


def operation(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENT["paths"][route.path][route.method.lower()]
    return found


async def test_it_is_valid() -> None:
    OPENAPI_31_VALIDATOR.validate(DOCUMENT)


async def test_every_form_in_it_is_a_valid_schema() -> None:
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema_rs.meta.validate(
            {**schema, "$schema": "https://json-schema.org/draft/2020-12/schema"}
        )


async def test_every_reference_in_it_leads_somewhere() -> None:
    names = re.findall(r"'#/components/schemas/([^']+)'", repr(DOCUMENT))
    assert names
    assert set(names) <= set(DOCUMENT["components"]["schemas"])


async def test_it_has_every_route_and_no_other() -> None:
    described = {
        (method.upper(), path)
        for path, operations in DOCUMENT["paths"].items()
        for method in operations
    }
    assert described == {(r.method, r.path) for r in ROUTES if r.method != WEBSOCKET}
    names = [each["operationId"] for at in DOCUMENT["paths"].values() for each in at.values()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("route", VISIBLE)
async def test_what_an_operation_declares_is_what_its_route_says(route: Route) -> None:
    described = operation(route)
    statuses = set(described["responses"])
    assert {str(route.status), "400", "403", "422", "500", "503"} <= statuses
    assert ("401" in statuses) == (route.token or Unauthenticated in route.errors)
    assert ("413" in statuses) == ("415" in statuses) == ("requestBody" in described)
    assert (described.get("security") == []) == (not route.token)
    named = {each["name"] for each in described.get("parameters", ())}
    assert set(re.findall(r"\{(\w+)\}", route.path)) <= named
    assert ("Idempotency-Key" in named) == route.takes_key
    assert route.takes_key == (route.method == "POST" and not route.confidential)
    assert set(getattr(route.query, "__struct_fields__", ())) <= named


async def test_it_is_served_to_everybody_as_it_is(shared: Served) -> None:
    answer = await shared.ask.get("/openapi.json", headers={"authorization": ""})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == DOCUMENT


# ── the page ─────────────────────────────────────────────────────────────────────────────────


class Page(HTMLParser):
    """What a browser would make of it, as far as we ask."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "html"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag != "html":
            assert self.open.pop() == tag


async def test_the_page_needs_nothing_but_itself(shared: Served) -> None:
    answer = await shared.ask.get("/docs", headers={"authorization": ""})
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    read = Page(answer.text)
    assert not read.open
    assert not {tag for tag, _ in read.tags} & {"script", "img", "link", "iframe", "form", "object"}
    addresses = [attrs["href"] for tag, attrs in read.tags if tag == "a"]
    anchors = {f"#{attrs['id']}" for _, attrs in read.tags if "id" in attrs}
    assert set(addresses) <= anchors | {"/openapi.json"}
    assert not [attrs for _, attrs in read.tags if "style" in attrs or "onclick" in attrs]


async def test_the_page_lists_every_route_and_every_form(shared: Served) -> None:
    text = (await shared.ask.get("/docs")).text
    for route in ROUTES:
        assert route.path in text
        if route.method != WEBSOCKET:
            assert escape(route.summary) in text
    for name in DOCUMENT["components"]["schemas"]:
        assert f'id="form-{name}"' in text

"""The table of routes: how a request finds its own, and what is derived from it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple
from urllib.parse import unquote

import msgspec

from agor.daemon.api import openapi, page
from agor.daemon.api.route import WEBSOCKET, Route

#: What an id may look like. Whether there is such a thing, the services know.
ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


class Place:
    """What is served at one path."""

    def __init__(self) -> None:
        self.routes: dict[str, Route] = {}
        self._literal: dict[str, Place] = {}
        self._named: Place | None = None

    @cached_property
    def allow(self) -> bytes:
        """Say which methods it takes, as the header has it."""
        return ", ".join([*(name for name in self.routes if name != WEBSOCKET), "OPTIONS"]).encode()

    def grow(self, segment: str) -> Place:
        """Give the place one segment further, made if need be."""
        if segment.startswith("{"):
            self._named = self._named or Place()
            return self._named
        return self._literal.setdefault(segment, Place())

    def step(self, segment: str) -> tuple[Place | None, str | None]:
        """Go one segment further; the name, if that is what the segment is."""
        place = self._literal.get(segment)
        if place is not None or self._named is None:
            return place, None
        name = unquote(segment)
        return (self._named, name) if ID.fullmatch(name) else (None, None)


class Found(NamedTuple):
    """A place, and what the path named on the way to it."""

    place: Place
    ids: tuple[str, ...]


class Table:
    """All routes of the daemon."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = routes
        self._root = Place()
        for route in routes:
            place = self._root
            for segment in route.path[1:].split("/"):
                place = place.grow(segment)
            assert route.method not in place.routes, f"{route.method} {route.path} is there twice"
            place.routes[route.method] = route
            if route.method == "GET":
                place.routes["HEAD"] = route

    def find(self, path: str) -> Found | None:
        """Find what is served at a path, as it was on the wire."""
        place: Place | None = self._root
        names: tuple[str, ...] = ()
        for segment in path[1:].split("/"):
            assert place is not None
            place, name = place.step(segment)
            if place is None:
                return None
            if name is not None:
                names = (*names, name)
        return Found(place, names) if place is not None and place.routes else None

    @cached_property
    def document(self) -> bytes:
        """The OpenAPI document."""
        return msgspec.json.encode(openapi.describe(self.routes))

    @cached_property
    def page(self) -> bytes:
        """The page that shows the document to people."""
        return page.render(openapi.describe(self.routes)).encode()

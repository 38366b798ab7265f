"""The interface about itself: its OpenAPI document, and a page made of that."""

from __future__ import annotations

from agor.daemon.api.route import Request


async def openapi(request: Request[None]) -> bytes:
    """Give the OpenAPI document."""
    return request.table.document


async def docs(request: Request[None]) -> bytes:
    """Give the page."""
    return request.table.page

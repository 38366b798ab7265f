"""Executors: list those that run."""

from __future__ import annotations

from agor.daemon.api.route import Request
from agor.protocol.api import ExecutorInfo, Page


async def page(request: Request[None]) -> Page[ExecutorInfo]:
    """List the executors. There are never so many that it takes a second page."""
    return Page(items=request.services.executors(request.who))

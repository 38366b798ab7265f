"""Repositories: register, clone, list, look at, forget."""

from __future__ import annotations

from agor.daemon.api.forms import PageQuery
from agor.daemon.api.route import Reply, Request
from agor.protocol.api import Page
from agor.protocol.workspaces import NewRepo, Repo


async def add(request: Request[NewRepo]) -> Repo | Reply:
    """Register a repository, or begin to clone one: that one is answered before it is done."""
    repo = await request.services.workspaces.repos.add(request.who, request.form, request.receipt)
    return Reply(202, repo) if repo.status == "cloning" else repo


async def page(request: Request[PageQuery]) -> Page[Repo]:
    """List repositories."""
    asked = request.form
    return await request.services.workspaces.repos.page(request.who, asked.cursor, asked.limit)


async def get(request: Request[None]) -> Repo:
    """Show a repository."""
    return await request.services.workspaces.repos.get(request.who, request.id)


async def remove(request: Request[None]) -> None:
    """Forget a repository."""
    await request.services.workspaces.repos.remove(request.who, request.id)

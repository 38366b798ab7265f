"""Credentials: keep, list, delete; and the rotation of what they are sealed with."""

from __future__ import annotations

from agor.daemon.api.forms import CredentialQuery
from agor.daemon.api.route import Request
from agor.protocol.api import Page
from agor.protocol.credentials import Credential, NewCredential, NewRotation, Rotation


async def page(request: Request[None]) -> Page[Credential]:
    """List credentials."""
    return await request.services.credentials.page(request.who)


async def put(request: Request[NewCredential]) -> Credential:
    """Keep a credential."""
    return await request.services.credentials.put(
        request.who,
        request.id,
        request.form,
        team=request.query.team,
        dry_run=request.query.dry_run,
    )


async def delete(request: Request[CredentialQuery]) -> None:
    """Keep a credential no more."""
    await request.services.credentials.delete(request.who, request.id, team=request.form.team)


async def rotate(request: Request[NewRotation]) -> Rotation:
    """Begin a rotation."""
    return await request.services.rotations.begin(
        request.who, request.receipt, lost=request.form.lost
    )


async def rotation(request: Request[None]) -> Rotation:
    """Tell how far a rotation is."""
    return await request.services.rotations.show(request.who)

"""Sessions: begin, list, look at, change, delete."""

from __future__ import annotations

from agor.daemon.api.forms import SessionsQuery, TranscriptQuery
from agor.daemon.api.route import Request
from agor.protocol.api import NewSession, Page, Session, SessionChange
from agor.protocol.transcripts import ReadTranscriptResult


async def create(request: Request[NewSession]) -> Session:
    """Begin a session."""
    return await request.services.sessions.create(request.who, request.form, request.receipt)


async def page(request: Request[SessionsQuery]) -> Page[Session]:
    """List sessions."""
    asked = request.form
    return await request.services.sessions.page(
        request.who, asked.whose, asked.status, asked.cursor, asked.limit
    )


async def get(request: Request[None]) -> Session:
    """Show a session."""
    return await request.services.sessions.get(request.who, request.id)


async def change(request: Request[SessionChange]) -> Session:
    """Change a session."""
    return await request.services.sessions.change(request.who, request.id, request.form)


async def delete(request: Request[None]) -> None:
    """Delete a session and all that belongs to it."""
    await request.services.sessions.delete(request.who, request.id)


async def transcript(request: Request[TranscriptQuery]) -> ReadTranscriptResult:
    """Read the agent's own record."""
    asked = request.form
    return await request.services.transcripts.read(
        request.who, request.id, asked.form, asked.cursor
    )

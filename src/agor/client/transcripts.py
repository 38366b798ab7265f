"""The client's part for agents' own records of sessions: `client.transcripts`."""

from __future__ import annotations

from collections.abc import AsyncIterator

from agor.client.calls import Calls
from agor.client.ids import in_path
from agor.protocol.transcripts import (
    ReadTranscriptResult,
    Transcript,
    TranscriptBlock,
    TranscriptForm,
    joined,
)

#: Seconds for one part: an executor may have to be started to read it.
_PATIENCE = 120.0


class TranscriptCalls:
    """Agents' own records, for the owners of the sessions."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def read(self, session_id: str) -> Transcript:
        """Read the whole record of a session, as the agent wrote it."""
        return joined([part.transcript async for part in self._parts(session_id, "lines")])

    async def blocks(self, session_id: str) -> list[TranscriptBlock]:
        """Read the record of a session as blocks: those that were told live."""
        parts = self._parts(session_id, "blocks")
        return [block async for part in parts for block in part.blocks]

    async def _parts(
        self, session_id: str, form: TranscriptForm
    ) -> AsyncIterator[ReadTranscriptResult]:
        more, cursor = True, None
        while more:
            part = await self._calls.ask(
                "GET", f"/sessions/{in_path(session_id)}/transcript", ReadTranscriptResult,
                query={"form": form, "cursor": cursor}, timeout=_PATIENCE,
            )  # fmt: skip
            more, cursor = part.more, part.cursor
            yield part

"""The routes of sessions, their tasks and their feeds."""

from __future__ import annotations

from agor.daemon.api import (
    feed,
    sessions,
    shares,
    tasks,
)
from agor.daemon.api.forms import (
    FeedQuery,
    PageQuery,
    SessionsQuery,
    TasksQuery,
    TranscriptQuery,
)
from agor.daemon.api.route import WEBSOCKET, Route
from agor.errors import (
    Conflict,
    GitFailed,
    NotFound,
    PoolClosed,
    PoolExhausted,
    StoreUnavailable,
    Unprocessable,
)
from agor.protocol.api import (
    FeedEvent,
    Messages,
    NewPrompt,
    NewSession,
    Page,
    PromptAccepted,
    Session,
    SessionChange,
    Task,
    TaskMove,
    TaskStop,
)
from agor.protocol.shares import NewShare, Share
from agor.protocol.transcripts import ReadTranscriptResult

_FOLLOW = """Replays what is behind `after` and goes on live, with no gap and no duplicate. To go on
after a cut, ask again with the sequence of the last event that you have.
A client that does not read is cut off."""

SESSION_ROUTES: list[Route] = [
    # ── sessions ─────────────────────────────────────────────────────────────────────────────
    Route(
        method="POST", path="/sessions", action="session.create",
        handler=sessions.create,
        summary="Begin a session",
        details="In a folder, in a worktree, or with a repo_id in a worktree that is made for it.",
        body=NewSession, result=Session, status=201,
        errors=(NotFound, Unprocessable, Conflict, GitFailed, StoreUnavailable),
    ),
    Route(
        method="GET", path="/sessions", action="session.list",
        handler=sessions.page,
        summary="List sessions, the newest first",
        query=SessionsQuery, result=Page[Session], errors=(Unprocessable, StoreUnavailable),
    ),
    Route(
        method="GET", path="/sessions/{session_id}", action="session.view",
        handler=sessions.get,
        summary="Show a session",
        result=Session, errors=(NotFound, StoreUnavailable),
    ),
    Route(
        method="PATCH", path="/sessions/{session_id}", action="session.change",
        handler=sessions.change,
        summary="Change a session, or archive it",
        body=SessionChange, result=Session,
        errors=(NotFound, Conflict, Unprocessable, StoreUnavailable),
    ),
    Route(
        method="DELETE", path="/sessions/{session_id}", action="session.delete",
        handler=sessions.delete,
        summary="Delete a session with its tasks, its messages and its feed",
        status=204, errors=(NotFound, Conflict, StoreUnavailable),
    ),
    # ── shares ───────────────────────────────────────────────────────────────────────────────
    Route(
        method="GET", path="/sessions/{session_id}/shares", action="session.view",
        handler=shares.page,
        summary="List whom a session is shared with",
        result=Page[Share], errors=(NotFound, StoreUnavailable),
    ),
    Route(
        method="PUT", path="/sessions/{session_id}/shares/{user_id}", action="session.share",
        handler=shares.put,
        summary="Share a session with somebody",
        details="To `view` it, or to `prompt` as well. It runs as its owner and on its owner's "
        "keys, whoever prompts.",
        body=NewShare, result=Share,
        errors=(NotFound, Conflict, Unprocessable, StoreUnavailable),
    ),
    Route(
        method="DELETE", path="/sessions/{session_id}/shares/{user_id}", action="session.share",
        handler=shares.remove,
        summary="Share a session with somebody no more",
        status=204, errors=(NotFound, StoreUnavailable),
    ),
    # ── tasks ────────────────────────────────────────────────────────────────────────────────
    Route(
        method="POST", path="/sessions/{session_id}/prompt", action="session.prompt",
        handler=tasks.prompt,
        summary="Give a session's agent a prompt",
        details="Answers as soon as the prompt is safe. It runs once, when it is its turn; what "
        "happens is told by the feed.",
        body=NewPrompt, result=PromptAccepted, status=202,
        errors=(NotFound, Conflict, Unprocessable, StoreUnavailable, PoolExhausted, PoolClosed),
    ),
    Route(
        method="GET", path="/sessions/{session_id}/tasks", action="session.view",
        handler=tasks.page,
        summary="List a session's tasks, the newest first",
        query=TasksQuery, result=Page[Task],
        errors=(NotFound, Unprocessable, StoreUnavailable),
    ),
    Route(
        method="GET", path="/sessions/{session_id}/messages", action="session.view",
        handler=tasks.messages,
        summary="Show a session's conversation, the newest part first",
        details="`sequence` says how far in the feed it reaches: follow the feed from there.",
        query=PageQuery, result=Messages, errors=(NotFound, Unprocessable, StoreUnavailable),
    ),
    Route(
        method="GET", path="/sessions/{session_id}/transcript", action="session.transcript",
        handler=sessions.transcript,
        summary="Read the agent's own record of a session",
        details="As its lines, or as blocks rebuilt from them; in parts, each with the cursor of "
        "the next. It is read in the home of the session's Unix user.",
        query=TranscriptQuery, result=ReadTranscriptResult,
        errors=(NotFound, Conflict, Unprocessable, StoreUnavailable, PoolExhausted, PoolClosed),
    ),
    Route(
        method="GET", path="/tasks/{task_id}", action="session.view",
        handler=tasks.get,
        summary="Show a task",
        result=Task, errors=(NotFound, StoreUnavailable),
    ),
    Route(
        method="PATCH", path="/tasks/{task_id}", action="session.prompt",
        handler=tasks.move,
        summary="Move a task in its session's queue",
        body=TaskMove, result=Task, errors=(NotFound, Conflict, Unprocessable, StoreUnavailable),
    ),
    Route(
        method="POST", path="/tasks/{task_id}/stop", action="session.stop",
        handler=tasks.stop,
        summary="Stop a task, or take it out of the queue",
        details="Answers as soon as the wish is safe. The task is then `stopping`, and `stopped` "
        "once nothing of it is left; one that only waited is `stopped` at once.",
        body=TaskStop, body_optional=True, result=Task, status=202,
        errors=(NotFound, Conflict, Unprocessable, StoreUnavailable),
    ),
    # ── the feed ─────────────────────────────────────────────────────────────────────────────
    Route(
        method="GET", path="/sessions/{session_id}/events", action="session.view",
        stream=feed.over_sse,
        summary="Follow a session's feed, as server-sent events",
        details=_FOLLOW, query=FeedQuery, result=FeedEvent, media="text/event-stream",
        errors=(NotFound, Conflict, Unprocessable, StoreUnavailable, PoolClosed),
    ),
    Route(
        method=WEBSOCKET, path="/sessions/{session_id}/events", action="session.view",
        stream=feed.over_websocket,
        summary="Follow a session's feed, over a WebSocket",
        details=_FOLLOW, query=FeedQuery, result=FeedEvent, status=101,
        errors=(NotFound, Conflict, Unprocessable, StoreUnavailable, PoolClosed),
    ),
]  # fmt: skip

"""All routes of the daemon. What is not here does not exist."""

from __future__ import annotations

from prometheus_client import CONTENT_TYPE_LATEST

from agor.daemon.api import (
    audit,
    auth,
    credentials,
    documents,
    executors,
    feed,
    health,
    page,
    permissions,
    rules,
    sessions,
    shares,
    tasks,
    tokens,
    users,
)
from agor.daemon.api.forms import (
    AuditQuery,
    CredentialQuery,
    FeedQuery,
    Liveness,
    PageQuery,
    PermissionsQuery,
    Readiness,
    RuleExportQuery,
    RulesQuery,
    SessionsQuery,
    TasksQuery,
    TokensQuery,
    VerificationQuery,
)
from agor.daemon.api.route import WEBSOCKET, Route
from agor.daemon.api.workspace_routes import WORKSPACE_ROUTES
from agor.errors import (
    Conflict,
    GitFailed,
    MasterKeyUnusable,
    NotFound,
    PoolClosed,
    PoolExhausted,
    StoreUnavailable,
    TooManyAttempts,
    Unauthenticated,
    Unprocessable,
)
from agor.protocol.api import (
    Decision,
    ExecutorInfo,
    FeedEvent,
    Health,
    Messages,
    NewPrompt,
    NewSession,
    Page,
    Permission,
    PromptAccepted,
    Session,
    SessionChange,
    Task,
    TaskMove,
    TaskStop,
)
from agor.protocol.audit import AuditEntry, AuditVerification
from agor.protocol.credentials import Credential, NewCredential, NewRotation, Rotation
from agor.protocol.people import (
    ApiToken,
    MadeToken,
    Me,
    NewPassword,
    NewToken,
    NewUser,
    SignInCode,
    SignInRequest,
    User,
    UserChange,
)
from agor.protocol.rules import NewRule, PermissionRule, RuleExport, RulePreview
from agor.protocol.shares import NewShare, Share

_FOLLOW = """Replays what is behind `after` and goes on live, with no gap and no duplicate. To go on
after a cut, ask again with the sequence of the last event that you have.
A client that does not read is cut off."""

ROUTES: list[Route] = [
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
    # ── permissions ──────────────────────────────────────────────────────────────────────────
    Route(
        method="GET", path="/permissions", action="permission.list",
        handler=permissions.page,
        summary="List permission requests, the newest first",
        query=PermissionsQuery, result=Page[Permission], errors=(Unprocessable, StoreUnavailable),
    ),
    Route(
        method="GET", path="/permissions/{permission_id}", action="session.view",
        handler=permissions.get,
        summary="Show a permission request",
        result=Permission, errors=(NotFound, StoreUnavailable),
    ),
    Route(
        method="POST", path="/permissions/{permission_id}/decision", action="permission.decide",
        handler=permissions.decide,
        summary="Answer a permission request",
        details="The first answer counts; a second one is refused. With a `scope` other than "
        "`once` it makes a rule as well: without `rule`, for exactly this tool with exactly this "
        "input.",
        body=Decision, result=Permission,
        errors=(NotFound, Conflict, Unprocessable, StoreUnavailable),
    ),
    # ── permission rules ─────────────────────────────────────────────────────────────────────
    Route(
        method="GET", path="/permission-rules", action="rule.list",
        handler=rules.page,
        summary="List permission rules, the newest first",
        query=RulesQuery, result=Page[PermissionRule],
        errors=(Unprocessable, StoreUnavailable),
    ),
    Route(
        method="POST", path="/permission-rules", action="rule.make",
        handler=rules.make,
        summary="Make a permission rule",
        details="It holds at once, also for what is being asked already. Preview it first.",
        body=NewRule, result=PermissionRule, status=201,
        errors=(NotFound, Conflict, Unprocessable, StoreUnavailable),
    ),
    Route(
        method="POST", path="/permission-rules/preview", action="rule.make",
        handler=rules.preview,
        summary="Show which past requests a rule would have decided; saves nothing",
        body=NewRule, result=RulePreview,
        errors=(NotFound, Unprocessable, StoreUnavailable),
    ),
    Route(
        method="GET", path="/permission-rules/export", action="rule.list",
        handler=rules.export,
        summary="Give all permission rules that hold, each as it can be sent again",
        query=RuleExportQuery, result=RuleExport,
        errors=(Unprocessable, StoreUnavailable),
    ),
    Route(
        method="GET", path="/permission-rules/{rule_id}", action="rule.list",
        handler=rules.get,
        summary="Show a permission rule, also one that holds no more",
        result=PermissionRule, errors=(NotFound, StoreUnavailable),
    ),
    Route(
        method="DELETE", path="/permission-rules/{rule_id}", action="rule.revoke",
        handler=rules.revoke,
        summary="Revoke a permission rule; it is kept, and decides nothing any more",
        status=204, errors=(NotFound, StoreUnavailable),
    ),
    # ── credentials ──────────────────────────────────────────────────────────────────────────
    Route(
        method="GET", path="/credentials", action="credential.list",
        handler=credentials.page,
        summary="List one's own credentials and the team's, by name",
        details="Never their values. The team's is used where one has none of one's own.",
        result=Page[Credential], errors=(StoreUnavailable,),
    ),
    Route(
        method="PUT", path="/credentials/{name}", action="credential.keep",
        handler=credentials.put,
        summary="Keep a credential, in the place of what has this name now",
        details="All of it is replaced: a base URL or agents that are absent are so afterwards.",
        query=CredentialQuery, body=NewCredential, confidential=True, result=Credential,
        errors=(NotFound, Unprocessable, Conflict, StoreUnavailable, MasterKeyUnusable),
    ),
    Route(
        method="DELETE", path="/credentials/{name}", action="credential.keep",
        handler=credentials.delete,
        summary="Keep a credential no more",
        query=CredentialQuery, status=204, errors=(NotFound, StoreUnavailable),
    ),
    Route(
        method="POST", path="/credentials/rotation", action="credential.rotate",
        handler=credentials.rotate,
        summary="Seal all credentials with a new version of the master key",
        details="Answers as soon as the new version is safe; nothing stops meanwhile. If a "
        "rotation is under way, it is told how far that is.",
        body=NewRotation, body_optional=True, result=Rotation, status=202,
        errors=(StoreUnavailable, MasterKeyUnusable),
    ),
    Route(
        method="GET", path="/credentials/rotation", action="credential.rotate",
        handler=credentials.rotation,
        summary="Tell how far the credentials are on the newest version of the master key",
        result=Rotation, errors=(StoreUnavailable, MasterKeyUnusable),
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
    # ── people ───────────────────────────────────────────────────────────────────────────────
    Route(
        method="POST", path="/users", action="user.manage",
        handler=users.add,
        summary="Add a user",
        body=NewUser, result=User, status=201, confidential=True,
        errors=(Conflict, Unprocessable, StoreUnavailable),
    ),
    Route(
        method="GET", path="/users", action="user.list",
        handler=users.page,
        summary="List users, those first who were there first",
        query=PageQuery, result=Page[User], errors=(Unprocessable,),
    ),
    Route(
        method="GET", path="/users/{user_id}", action="user.view",
        handler=users.get,
        summary="Show a user",
        result=User, errors=(NotFound,),
    ),
    Route(
        method="PATCH", path="/users/{user_id}", action="user.manage",
        handler=users.change,
        summary="Change a user's role or Unix user, disable or enable them",
        details="A user who is disabled is refused at once, whatever token they have.",
        body=UserChange, result=User,
        errors=(NotFound, Conflict, Unprocessable, StoreUnavailable),
    ),
    Route(
        method="PUT", path="/users/{user_id}/password", action="user.set_password",
        handler=users.set_password,
        summary="Set a user's password",
        details="One's own takes the current one, unless it is asked with the local token. Every "
        "other sign-in of that user ends.",
        body=NewPassword, status=204, confidential=True,
        errors=(NotFound, Unprocessable, TooManyAttempts, StoreUnavailable),
    ),
    Route(
        method="POST", path="/tokens", action="token.make",
        handler=tokens.make,
        summary="Make a token for a program of yours; it is shown this once",
        body=NewToken, result=MadeToken, status=201, confidential=True,
        errors=(Conflict, Unprocessable, StoreUnavailable),
    ),
    Route(
        method="GET", path="/tokens", action="token.list",
        handler=tokens.page,
        summary="List your tokens, the newest first, or another user's",
        query=TokensQuery, result=Page[ApiToken], errors=(NotFound, Unprocessable),
    ),
    Route(
        method="DELETE", path="/tokens/{token_id}", action="token.revoke",
        handler=tokens.revoke,
        summary="Revoke a token, at once",
        status=204, errors=(NotFound, StoreUnavailable),
    ),
    Route(
        method="POST", path="/auth/login", action=None,
        handler=auth.login,
        summary="Sign a browser in, with a name and its password or a one-time code",
        details="The answer sets a cookie, which no script can read. A sign-in that the browser "
        "had before ends.",
        body=SignInRequest, result=Me, confidential=True,
        errors=(Unauthenticated, Unprocessable, TooManyAttempts, StoreUnavailable),
    ),
    Route(
        method="POST", path="/auth/logout", action="sign_in.end",
        handler=auth.logout,
        summary="Sign the browser out", status=204, confidential=True,
        errors=(Conflict, StoreUnavailable),
    ),
    Route(
        method="POST", path="/auth/link", action="sign_in.link",
        handler=auth.link,
        summary="Make a one-time code for a browser on this machine",
        details="With the local token only. It is good for a minute, and once.",
        result=SignInCode, confidential=True,
    ),
    Route(
        method="GET", path="/auth/me", action="user.view",
        handler=auth.me,
        summary="Tell who you are", result=Me,
    ),
    # ── the audit log ────────────────────────────────────────────────────────────────────────
    Route(
        method="GET", path="/audit", action="audit.view",
        handler=audit.page,
        summary="List what happened, the newest first",
        query=AuditQuery, result=Page[AuditEntry], errors=(Unprocessable, StoreUnavailable),
    ),
    Route(
        method="GET", path="/audit/verification", action="audit.view",
        handler=audit.verify,
        summary="Verify a part of the audit log",
        details="Begins at its first record, or where the cursor says, and goes on for a bounded "
        "number of records. All is verified once an answer has neither `fault` nor `next_cursor`.",
        query=VerificationQuery, result=AuditVerification,
        errors=(Unprocessable, StoreUnavailable),
    ),
    *WORKSPACE_ROUTES,
    # ── the daemon itself ────────────────────────────────────────────────────────────────────
    Route(
        method="GET", path="/executors", action="executor.list",
        handler=executors.page,
        summary="List the executors that run now", result=Page[ExecutorInfo],
    ),
    Route(
        method="GET", path="/livez", action=None,
        handler=health.live,
        summary="Tell whether the daemon answers at all", result=Liveness,
    ),
    Route(
        method="GET", path="/readyz", action=None,
        handler=health.ready,
        summary="Tell whether the daemon can take work",
        result=Readiness, also={503: Readiness},
    ),
    Route(
        method="GET", path="/health", action="daemon.health",
        handler=health.health,
        summary="Tell how the daemon is, in detail", result=Health,
    ),
    Route(
        method="GET", path="/metrics", action="daemon.metrics",
        handler=health.metrics,
        summary="Give the daemon's figures, for Prometheus",
        result=str, media=CONTENT_TYPE_LATEST,
    ),
    Route(
        method="GET", path="/openapi.json", action=None,
        handler=documents.openapi,
        summary="Give this description of the interface", result=dict,
    ),
    Route(
        method="GET", path="/docs", action=None,
        handler=documents.docs,
        summary="Show this description as a page",
        result=str, media="text/html; charset=utf-8", headers=page.HEADERS,
    ),
]  # fmt: skip

"""The forms that only this interface has: queries, and what needs no token."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from agor.protocol.api import Given, Id, PermissionStatus, Sent, SessionStatus, TaskStatus
from agor.protocol.people import Whose
from agor.protocol.terminals import Offset
from agor.protocol.transcripts import TranscriptForm

Limit = Annotated[int, Meta(ge=1, le=200, description="How many at most.")]
Cursor = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=256,
        pattern=r"^[A-Za-z0-9._-]+$",
        description="`next_cursor` of the answer before.",
    ),
]
Sequence = Annotated[
    int, Meta(ge=0, le=2**63 - 1, description="Begin behind this event of the feed.")
]
Time = Annotated[int, Meta(ge=0, le=2**53)]


WhoseSessions = Annotated[
    Whose,
    Meta(
        description="In whose sessions: one's own, those shared with one (both, if it is not "
        "said), or all that one may look at."
    ),
]


class PageQuery(Sent):
    """Which part of a list."""

    cursor: Cursor | None = None
    limit: Limit = 50


class TranscriptQuery(Sent):
    """Which part of an agent's record, and in which form."""

    form: TranscriptForm = "lines"
    cursor: Annotated[str, Meta(min_length=1, max_length=10_000, pattern=r"^[\w=-]+$")] | None = (
        None
    )


class SessionsQuery(PageQuery):
    """Which sessions."""

    status: SessionStatus | None = None
    whose: WhoseSessions | None = None


class TasksQuery(PageQuery):
    """Which tasks."""

    status: TaskStatus | None = None


class PermissionsQuery(PageQuery):
    """Which permission requests."""

    status: PermissionStatus | None = None
    whose: WhoseSessions | None = None


class TokensQuery(PageQuery):
    """Whose tokens; one's own, if it is not said."""

    user_id: Id | None = None


class RulesQuery(PageQuery):
    """Which permission rules."""

    status: Annotated[Literal["live", "all"], Meta(description="`live`: those that hold now.")] = (
        "live"
    )
    user_id: Annotated[Id, Meta(description="Somebody else's, for admins.")] | None = None


class RuleExportQuery(Sent):
    """Whose permission rules."""

    user_id: Annotated[Id, Meta(description="Somebody else's, for admins.")] | None = None


class AuditQuery(PageQuery):
    """Which records of the audit log; all of it must hold."""

    user_id: Id | None = None
    user: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=256,
                pattern=r"^[^\x00]*$",
                description="By name; also `daemon` and `stranger`.",
            ),
        ]
        | None
    ) = None
    session_id: Id | None = None
    action: (
        Annotated[
            str,
            Meta(
                max_length=64,
                pattern=r"^[a-z_]+\.[a-z_]*$",
                description="One action, or with a dot at its end all that begin so.",
            ),
        ]
        | None
    ) = None
    after: Annotated[Time, Meta(description="From this time on.")] | None = None
    before: Annotated[Time, Meta(description="Until just before this time.")] | None = None


class VerificationQuery(Sent):
    """From where on."""

    cursor: Cursor | None = None


DryRun = Annotated[bool, Meta(description="Check everything, and change nothing.")]


class DryRunQuery(Sent):
    """Whether to do it at all."""

    dry_run: DryRun = False


class CredentialQuery(Sent):
    """Whose credential."""

    team: Annotated[bool, Meta(description="The whole team's, instead of one's own.")] = False


class NewCredentialQuery(CredentialQuery):
    """Whose credential, and whether to keep it at all."""

    dry_run: DryRun = False


class FeedQuery(Sent):
    """From where on."""

    after: Sequence = 0


class TerminalQuery(Sent):
    """From where on."""

    after: Annotated[
        Offset, Meta(description="How many bytes of what it printed are there already.")
    ] = 0


class WorktreesQuery(PageQuery):
    """Which worktrees."""

    repo_id: Id | None = None


class DiffQuery(Sent):
    """How much of a difference."""

    max_bytes: Annotated[
        int, Meta(ge=1, le=8 * 1024 * 1024, description="How long the patch may be.")
    ] = 1024 * 1024


class RemovalQuery(Sent):
    """What becomes of work that is in no commit."""

    discard: Literal["true", "false"] = "false"


class Liveness(Given):
    """The daemon answers."""

    status: Literal["ok"]


class Readiness(Given):
    """Whether the daemon can take work; if not, the checks that fail."""

    status: Literal["ready", "degraded", "stopping"]
    failing: list[str]

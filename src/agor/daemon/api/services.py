"""What the handlers can reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agor.daemon.metrics import Metrics
from agor.daemon.services.audit.log import AuditLog
from agor.daemon.services.conversations import Conversations
from agor.daemon.services.credentials.credentials import Credentials
from agor.daemon.services.credentials.rotation import Rotations
from agor.daemon.services.feed import Feed
from agor.daemon.services.people.accounts import Accounts
from agor.daemon.services.people.api_tokens import ApiTokens
from agor.daemon.services.people.identity import Identity
from agor.daemon.services.people.shares import Shares
from agor.daemon.services.people.sign_ins import SignIns
from agor.daemon.services.people.signing_in import SigningIn
from agor.daemon.services.permissions.permissions import Permissions
from agor.daemon.services.principal import Principal
from agor.daemon.services.receipts import Receipts
from agor.daemon.services.rules.rules import Rules
from agor.daemon.services.sessions import Sessions
from agor.daemon.services.task_stops import TaskStops
from agor.daemon.services.tasks import Tasks
from agor.daemon.services.terminals.openings import Openings
from agor.daemon.services.terminals.terminals import Terminals
from agor.daemon.services.transcripts import SessionTranscripts
from agor.daemon.services.workspaces.parts import WorkspaceParts
from agor.errors import StoreUnavailable
from agor.protocol.api import ExecutorInfo, Health


@dataclass(frozen=True, kw_only=True)
class Services:
    """The use cases of the daemon, and how it is."""

    sessions: Sessions
    tasks: Tasks
    task_stops: TaskStops
    shares: Shares
    permissions: Permissions
    rules: Rules
    conversations: Conversations
    transcripts: SessionTranscripts
    credentials: Credentials
    rotations: Rotations
    receipts: Receipts
    feed: Feed
    openings: Openings
    terminals: Terminals
    accounts: Accounts
    api_tokens: ApiTokens
    sign_ins: SignIns
    signing_in: SigningIn
    identity: Identity
    audit: AuditLog
    workspaces: WorkspaceParts
    #: Lists those that run now, as far as this person may know of them.
    executors: Callable[[Principal], list[ExecutorInfo]]
    health: Callable[[], Health]
    #: Why nobody should wait for the database; none while it answers.
    stall: Callable[[], StoreUnavailable | None]
    metrics: Metrics

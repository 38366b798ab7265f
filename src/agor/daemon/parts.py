"""The parts of the daemon, and what is joined with what."""

from __future__ import annotations

import asyncio
import os

from agor.config import Config
from agor.daemon.metrics import Metrics
from agor.daemon.pool.direct import DirectExecutors
from agor.daemon.pool.ending import Ending
from agor.daemon.pool.pool import Pool
from agor.daemon.services.audit.anchoring import Anchoring
from agor.daemon.services.audit.anchors import AnchorFile
from agor.daemon.services.audit.log import AuditLog
from agor.daemon.services.audit.refused_tokens import RefusedTokens
from agor.daemon.services.compaction import Compactor
from agor.daemon.services.conversations import Conversations
from agor.daemon.services.credentials.credentials import Credentials
from agor.daemon.services.credentials.key_sources import source_of, take_variable
from agor.daemon.services.credentials.keys import Keys
from agor.daemon.services.credentials.rotation import Rotations
from agor.daemon.services.credentials.vault import Vault
from agor.daemon.services.dispatch import Dispatcher
from agor.daemon.services.executors import seat_of
from agor.daemon.services.feed import Feed
from agor.daemon.services.finish import Finisher
from agor.daemon.services.intake import Intake
from agor.daemon.services.live import LiveSessions
from agor.daemon.services.people.accounts import Accounts
from agor.daemon.services.people.api_tokens import ApiTokens
from agor.daemon.services.people.departures import Departures
from agor.daemon.services.people.passwords import Passwords
from agor.daemon.services.people.people import People
from agor.daemon.services.people.refusals import Refusals
from agor.daemon.services.people.revocations import Revocations
from agor.daemon.services.people.shares import Shares
from agor.daemon.services.people.sign_ins import SignIns
from agor.daemon.services.people.signing_in import SigningIn
from agor.daemon.services.people.throttle import Throttle
from agor.daemon.services.people.upkeep import Upkeep
from agor.daemon.services.permissions.permissions import Permissions
from agor.daemon.services.receipts import Receipts
from agor.daemon.services.records import StoreRecords
from agor.daemon.services.rules.rules import Rules
from agor.daemon.services.runs import Runs
from agor.daemon.services.sessions import Sessions
from agor.daemon.services.stops import Stopper
from agor.daemon.services.task_stops import TaskStops
from agor.daemon.services.tasks import Tasks
from agor.daemon.services.terminals.parts import TerminalParts
from agor.daemon.services.terminals.registry import OpenTerminals
from agor.daemon.services.tokens import Tokens
from agor.daemon.services.transcripts import SessionTranscripts
from agor.daemon.services.workspaces.parts import WorkspaceParts
from agor.daemon.settings import pool_settings
from agor.daemon.store import connect
from agor.execution import ExecutionEnvironment
from agor.executor.server import Executor, Options
from agor.home import Home


class Parts:
    """All parts of one daemon, joined."""

    def __init__(self, config: Config, home: Home) -> None:
        self._config = config
        self._home = home
        self._recovered = asyncio.Event()
        execution = config.execution
        self.pool_settings = pool_settings(config, home)
        self.metrics = Metrics()
        self.store = connect(config.database.url)
        self.revocations = Revocations()
        self._make_ways_in()
        self._make_audit()
        self.lives = LiveSessions(self.store, self.metrics)
        self.runs = Runs()
        self.tokens = Tokens(
            execution.session_token_expiration_ms, execution.session_token_max_uses
        )
        source = source_of(config.credentials, home, take_variable(os.environ))
        self.vault = Vault(self.store, source)
        self.credentials = Credentials(self.store, self.vault, self.people)
        self.rotations = Rotations(self.store, self.vault)
        keys = Keys(self.store, self.vault, self.tokens, self.runs, self.people)
        self.rules = Rules(self.store, self.lives)
        self.permissions = Permissions(
            self.store, self.lives, self.rules, execution.permission_timeout_ms
        )
        self.compactor = Compactor(self.store)
        self.finisher = Finisher(
            self.tokens, self.permissions.questions, self.metrics, self.compactor
        )
        self.intake = Intake(
            self.store, self.runs, self.tokens, self.permissions, keys, self.finisher,
            self.refused_tokens,
            outbox_bytes=execution.outbox_bytes, max_line=execution.max_line_bytes,
        )  # fmt: skip
        self.intake.end_executor = self._end_executor
        self.executors = self._make_executors()
        opened = OpenTerminals()
        self.workspaces = WorkspaceParts(
            self.store, self.people, self.lives, self.executors, opened, self.pool_settings,
            home.folder,
        )  # fmt: skip
        self.terminals = TerminalParts(
            self.store, self.people, self.lives, self.executors, self.workspaces.grounds, opened,
            execution.terminal_timeout_ms / 1000,
        )  # fmt: skip
        self.intake.hand_to_terminals = self.terminals.take
        self.dispatcher = Dispatcher(
            self.executors, self.people, self.workspaces.grounds, self.runs, self.tokens,
            self.finisher,
            execution.task_timeout_ms,
        )  # fmt: skip
        stop_timeout = execution.stop_timeout_ms / 1000
        self.stopper = Stopper(self.executors, self.tokens, self.finisher, stop_timeout)
        self.sessions = Sessions(
            self.store, self.lives, self.executors, self.workspaces.grounds,
            self.terminals.terminals, execution.environment,
        )  # fmt: skip
        self.tasks = Tasks(
            self.store, self.lives, self.executors, self.dispatcher, self.workspaces.grounds
        )
        self.task_stops = TaskStops(self.store, self.lives, self.runs, self.executors, self.stopper)
        self.shares = Shares(self.store, self.lives, self.people, self.revocations)
        self.departures = Departures(
            self.people, self.shares, self.executors, self.workspaces.identities.of,
            self.task_stops, self.revocations,
        )  # fmt: skip
        self.conversations = Conversations(self.store, self.lives, self.compactor)
        self.transcripts = SessionTranscripts(
            self.lives, self.executors, self.people, self.workspaces.grounds
        )
        self.receipts = Receipts(self.store)
        self.feed = Feed(self.lives.channel_for)

    # ── parts ────────────────────────────────────────────────────────────────────────────────

    def _make_ways_in(self) -> None:
        """Make what knows people, and how they come in."""
        self.people = People(self.store)
        self.passwords = Passwords()
        self.throttle = Throttle()
        self.refusals = Refusals(self.store)
        self.api_tokens = ApiTokens(self.store, self.people)
        self.sign_ins = SignIns(self.store, self.people)
        self.accounts = Accounts(
            self.store, self.people, self.passwords, self.sign_ins, self.throttle, self.refusals
        )
        self.signing_in = SigningIn(
            self.store, self.people, self.passwords, self.sign_ins, self.throttle, self.refusals
        )
        self.upkeep = Upkeep(self.api_tokens, self.sign_ins, self.refusals)

    def _make_audit(self) -> None:
        """Make what keeps the audit log and shows it."""
        anchors = AnchorFile(self._home.anchor_file)
        self.records = StoreRecords(self.store, self.people)
        self.refused_tokens = RefusedTokens(self.store, self.records)
        self.anchoring = Anchoring(self.store, anchors, self.refused_tokens)
        self.audit = AuditLog(self.store, self.people, anchors)

    def _make_executors(self) -> Pool | DirectExecutors:
        settings = self.pool_settings
        ended = self._executor_ended
        pool = Pool(settings, self.intake, self.records, on_end=ended)
        if self._config.execution.use_executor:
            return pool
        options = Options(
            max_line=settings.max_line,
            outbox_bytes=settings.outbox_bytes,
            orphan_timeout=settings.orphan_timeout,
        )
        return DirectExecutors(settings, self.intake, lambda: Executor(options), ended, pool)

    def _executor_ended(self, ending: Ending) -> None:
        self.intake.executor_ended(ending)
        self.terminals.endings.executor_ended(ending)

    async def _end_executor(self, environment: ExecutionEnvironment, why: str) -> None:
        # One that is only being taken back is not known to anybody yet.
        await self._recovered.wait()
        for each in self.executors.describe():
            if each.executor_id == environment.executor_id:
                await self.executors.stop(seat_of(each), why)

"""The daemon: what is wired to what, and in which order it starts and stops."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator

import structlog

import agor
from agor.config import Config
from agor.daemon.api.access import Authenticator
from agor.daemon.api.app import App
from agor.daemon.api.gate import check_host
from agor.daemon.api.server import ApiServer
from agor.daemon.api.services import Services
from agor.daemon.api.settings import ApiSettings
from agor.daemon.metrics import Metrics
from agor.daemon.pool.direct import DirectExecutors
from agor.daemon.pool.pool import Pool
from agor.daemon.pool.settings import PoolSettings
from agor.daemon.services import access
from agor.daemon.services.accounts import Accounts
from agor.daemon.services.anchoring import Anchoring
from agor.daemon.services.anchors import AnchorFile
from agor.daemon.services.api_tokens import ApiTokens
from agor.daemon.services.audit_log import AuditLog
from agor.daemon.services.conversations import Conversations
from agor.daemon.services.credentials import Credentials
from agor.daemon.services.departures import Departures
from agor.daemon.services.dispatch import Dispatcher
from agor.daemon.services.feed import Feed
from agor.daemon.services.finish import Finisher
from agor.daemon.services.housekeeping import keep_house
from agor.daemon.services.identity import Identity
from agor.daemon.services.intake import Intake
from agor.daemon.services.key_sources import source_of, take_variable
from agor.daemon.services.keys import Keys
from agor.daemon.services.live import LiveSessions
from agor.daemon.services.passwords import Passwords
from agor.daemon.services.people import People
from agor.daemon.services.permissions import Permissions
from agor.daemon.services.principal import Principal
from agor.daemon.services.receipts import Receipts
from agor.daemon.services.records import StoreRecords
from agor.daemon.services.recovery import Recovery
from agor.daemon.services.refusals import Refusals
from agor.daemon.services.refused_tokens import RefusedTokens
from agor.daemon.services.revocations import Revocations
from agor.daemon.services.rotation import Rotations
from agor.daemon.services.rules.rules import Rules
from agor.daemon.services.runs import Runs
from agor.daemon.services.sessions import Sessions
from agor.daemon.services.shares import Shares
from agor.daemon.services.sign_ins import SignIns
from agor.daemon.services.signing_in import SigningIn
from agor.daemon.services.stops import Stopper
from agor.daemon.services.task_stops import TaskStops
from agor.daemon.services.tasks import Tasks
from agor.daemon.services.throttle import Throttle
from agor.daemon.services.tokens import Tokens
from agor.daemon.services.upkeep import Upkeep
from agor.daemon.services.vault import Vault
from agor.daemon.services.workspace_parts import WorkspaceParts
from agor.daemon.store import connect
from agor.daemon.store.migrate import HEAD
from agor.execution import ExecutionEnvironment
from agor.executor.server import Executor, Options
from agor.home import Home
from agor.protocol.api import Check, ExecutorInfo, Health

log = structlog.get_logger("agor.daemon")

#: Objects made before the collector looks for garbage: most live no longer than one request.
_COLLECT_EVERY = 10_000


class Daemon:
    """One daemon, on one home."""

    def __init__(self, config: Config, home: Home) -> None:
        self._config = config
        self._home = home
        self._began = time.monotonic()
        self._stopping = False
        self._recovered = asyncio.Event()
        execution = config.execution
        self.metrics = Metrics()
        self.metrics.before_read = self._show_figures
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
        self.finisher = Finisher(self.tokens, self.permissions.questions, self.metrics)
        self.intake = Intake(
            self.store, self.runs, self.tokens, self.permissions, keys, self.finisher,
            self.refused_tokens,
            outbox_bytes=execution.outbox_bytes, max_line=execution.max_line_bytes,
        )  # fmt: skip
        self.intake.end_executor = self._end_executor
        self.executors = self._make_executors()
        self.workspaces = WorkspaceParts(
            self.store, self.people, self.lives, self.executors, pool_settings(config, home),
            home.folder,
        )  # fmt: skip
        self.dispatcher = Dispatcher(
            self.executors, self.people, self.workspaces.grounds, self.runs, self.tokens,
            self.finisher,
            execution.task_timeout_ms,
        )  # fmt: skip
        stop_timeout = execution.stop_timeout_ms / 1000
        self.stopper = Stopper(self.executors, self.tokens, self.finisher, stop_timeout)
        self.sessions = Sessions(
            self.store, self.lives, self.executors, self.workspaces.grounds, execution.environment
        )
        self.tasks = Tasks(self.store, self.lives, self.executors, self.dispatcher.kick)
        self.task_stops = TaskStops(self.store, self.lives, self.runs, self.executors, self.stopper)
        self.shares = Shares(self.store, self.lives, self.people, self.revocations)
        self.departures = Departures(self.people, self.task_stops, self.revocations)
        self.conversations = Conversations(self.store, self.lives)
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
        settings = pool_settings(self._config, self._home)
        ended = self.intake.executor_ended
        pool = Pool(settings, self.intake, self.records, on_end=ended)
        if self._config.execution.use_executor:
            return pool
        options = Options(
            max_line=settings.max_line,
            outbox_bytes=settings.outbox_bytes,
            orphan_timeout=settings.orphan_timeout,
        )
        return DirectExecutors(settings, self.intake, lambda: Executor(options), ended, pool)

    def services(self) -> Services:
        """Put together what the interface needs."""
        return Services(
            sessions=self.sessions,
            tasks=self.tasks,
            task_stops=self.task_stops,
            shares=self.shares,
            permissions=self.permissions,
            rules=self.rules,
            conversations=self.conversations,
            credentials=self.credentials,
            rotations=self.rotations,
            receipts=self.receipts,
            feed=self.feed,
            accounts=self.accounts,
            api_tokens=self.api_tokens,
            sign_ins=self.sign_ins,
            signing_in=self.signing_in,
            identity=Identity(self.people, self.api_tokens, self.sign_ins),
            audit=self.audit,
            workspaces=self.workspaces,
            executors=self._executors_of,
            health=self.health,
            metrics=self.metrics,
        )

    def authenticator(self) -> Authenticator:
        """Make what knows whom a token or a cookie stands for."""
        return Authenticator(
            self._home.token(), self.people, self.api_tokens, self.sign_ins, self.refusals
        )

    def app(self, settings: ApiSettings, services: Services | None = None) -> App:
        """Make the interface."""
        app = App(services or self.services(), self.authenticator(), settings)
        self.revocations.listen(app.feeds.revoke)
        return app

    def _api_settings(self, host: str) -> ApiSettings:
        daemon = self._config.daemon
        return ApiSettings(
            host=host,
            allowed_hosts=daemon.allowed_hosts,
            https_proxy=daemon.https_proxy,
            stall_timeout=self._config.feed.stall_timeout_ms / 1000,
        )

    def _executors_of(self, who: Principal) -> list[ExecutorInfo]:
        everybody = access.may(who, "executor.list", "none")
        found = self.executors.describe()
        return [each for each in found if everybody or each.user_id == who.user_id]

    async def _end_executor(self, environment: ExecutionEnvironment, why: str) -> None:
        # One that is only being taken back is not known to anybody yet.
        await self._recovered.wait()
        for each in self.executors.describe():
            if each.executor_id == environment.executor_id:
                await self.executors.stop(each.session_id, why)

    def _show_figures(self) -> None:
        """Set the figures that are looked up when they are asked for."""
        self.metrics.store_available.set(self.store.available)
        self.metrics.tasks_waiting.set(sum(len(live.queue) for live in self.lives.held()))
        self.metrics.show_executors([each.state for each in self.executors.describe()])

    def health(self) -> Health:
        """Look at all that must be well."""
        store = "writes" if self.store.available else "cannot write now"
        checks = [
            Check(name="store", ok=self.store.available, detail=store),
            Check(name="executors", ok=True, detail=self.executors.kind),
            Check(
                name="credentials",
                ok=self.vault.problem is None,
                detail=self.vault.problem or "can be opened",
            ),
        ]
        well = all(check.ok for check in checks)
        # It must be seen, and is no reason to take no work.
        if (fault := self.anchoring.fault) is not None:
            checks.append(Check(name="audit", ok=False, detail=f"{fault}: agor audit verify"))
        return Health(
            status="stopping" if self._stopping else "ok" if well else "degraded",
            version=agor.__version__,
            uptime_ms=int((time.monotonic() - self._began) * 1000),
            checks=checks,
        )

    # ── life ─────────────────────────────────────────────────────────────────────────────────

    @contextlib.asynccontextmanager
    async def working(self, host: str | None = None) -> AsyncIterator[Principal]:
        """Run tasks for as long as the block lasts; gives the owner of the home.

        If it is to listen on `host`, that is refused before anything is begun.
        """
        await self.store.open()
        try:
            who = await self.people.open()
            if host is not None:
                check_host(host, can_sign_in=self.people.can_sign_in)
            await self.api_tokens.open()
            await self.sign_ins.open()
            await self.anchoring.begin(**self._facts())
            await self.lives.open()
            await self.rules.open()
            await self.vault.open()
            recovery = Recovery(
                self.store, self.lives, self.runs, self.tokens, self.permissions, self.finisher,
                self.dispatcher, self.stopper, self.executors,
            )  # fmt: skip
            housekeeper = asyncio.create_task(keep_house(self.store))
            upkeep = asyncio.create_task(self.upkeep.run())
            self.workspaces.open()
            try:
                await self.rotations.open()
                await recovery.recover()
                self._recovered.set()
                self.departures.recover()
                yield who
            finally:
                housekeeper.cancel()
                upkeep.cancel()
                await self.workspaces.close()
                await self._wind_down()
        finally:
            self.passwords.close()
            await self.anchoring.end(drain=self._config.daemon.drain_on_stop)
            await self.store.close()

    def _facts(self) -> dict[str, object]:
        """Tell how the daemon is set up, as far as it matters for who may do what."""
        execution = self._config.execution
        return {
            "schema": HEAD,
            "executors": self.executors.kind,
            "run_as_unix_user": execution.run_as_unix_user,
            "executor_unix_user": execution.executor_unix_user,
        }

    @contextlib.asynccontextmanager
    async def serving(self, host: str, port: int) -> AsyncIterator[str]:
        """Serve the API for as long as the block lasts; gives its URL."""
        async with self.working(host):
            server = ApiServer(self.app(self._api_settings(host)))
            bound = await server.start(host, port)
            try:
                yield f"http://{_in_url(host)}:{bound}"
            finally:
                self._stopping = True
                await server.stop(self._config.daemon.stop_timeout_ms / 1000)

    async def _wind_down(self) -> None:
        """Begin nothing more, end or leave the executors, and store what has come."""
        drain = self._config.daemon.drain_on_stop
        # From now on nobody waits for a store that cannot write.
        for live in self.lives.held():
            live.channel.line.give_up()
        await self.departures.close()
        await self.dispatcher.close()
        self.permissions.questions.close()
        await self.rotations.close()
        await self.executors.close(drain=drain)
        await self.stopper.close()
        try:
            async with asyncio.timeout(self._config.daemon.stop_timeout_ms / 1000):
                await self.upkeep.finish()
                await self._settle()
        except TimeoutError:
            log.warning("not_all_settled", hint="The next daemon goes on from what is stored.")

    async def _settle(self) -> None:
        await self.intake.settled()
        for live in self.lives.held():
            await live.channel.line.flushed()


def pool_settings(config: Config, home: Home) -> PoolSettings:
    """Tell the pool what the configuration says."""
    execution = config.execution
    return PoolSettings(
        runtime=home.runtime,
        run_as_unix_user=execution.run_as_unix_user,
        executor_unix_user=execution.executor_unix_user,
        max_executors=execution.max_executors,
        max_waiting=execution.max_waiting,
        spare_executors=execution.spare_executors,
        idle_timeout=execution.idle_timeout_ms / 1000,
        orphan_timeout=execution.orphan_timeout_ms / 1000,
        socket_path_template=execution.socket_path_template,
        connection_timeout=execution.connection_timeout_ms / 1000,
        stop_timeout=execution.stop_timeout_ms / 1000,
        limits=execution.limits.resources,
        ping_interval=execution.ping_interval_ms / 1000,
        ping_timeout=execution.ping_timeout_ms / 1000,
        max_line=execution.max_line_bytes,
        outbox_bytes=execution.outbox_bytes,
    )


def _in_url(host: str) -> str:
    """Name the daemon as this machine reaches it, also if it listens on every address."""
    own = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - it is not bound here
    return f"[{own}]" if ":" in own else own

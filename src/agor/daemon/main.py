"""The daemon: in which order it starts and stops, what its interface reaches, and how it is."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import msgspec
import structlog

import agor
from agor.config import Config
from agor.daemon.api.access import Authenticator
from agor.daemon.api.app import App
from agor.daemon.api.gate import check_host
from agor.daemon.api.server import ApiServer
from agor.daemon.api.services import Services
from agor.daemon.api.settings import ApiSettings
from agor.daemon.parts import Parts
from agor.daemon.services import access, restored
from agor.daemon.services.audit.records import record
from agor.daemon.services.housekeeping import keep_house
from agor.daemon.services.people.identity import Identity
from agor.daemon.services.principal import Principal
from agor.daemon.services.recovery import Recovery
from agor.daemon.services.stamps import ids
from agor.daemon.settings import api_settings
from agor.daemon.store.base import Write
from agor.daemon.store.migrate import HEAD
from agor.daemon.store.newest import largest_ids
from agor.home import Home
from agor.protocol.api import Check, ExecutorInfo, Health

log = structlog.get_logger("agor.daemon")


class Daemon(Parts):
    """One daemon, on one home."""

    def __init__(self, config: Config, home: Home) -> None:
        super().__init__(config, home)
        self._began = time.monotonic()
        self._stopping = False
        self.metrics.before_read = self._show_figures

    # ── life ─────────────────────────────────────────────────────────────────────────────────

    @contextlib.asynccontextmanager
    async def working(self, host: str | None = None) -> AsyncIterator[Principal]:
        """Run tasks for as long as the block lasts; gives the owner of the home.

        If it is to listen on `host`, that is refused before anything is begun.
        """
        await self.store.open()
        try:
            ids.begin_after(await largest_ids(self.store))
            who = await self.people.open()
            if host is not None:
                check_host(host, can_sign_in=self.people.can_sign_in)
            await self.api_tokens.open()
            await self.sign_ins.open()
            await self.anchoring.begin(**self._facts())
            earlier = await self._note_restored()
            await self.lives.open()
            await self.rules.open()
            await self.vault.open()
            recovery = Recovery(
                self.store, self.lives, self.runs, self.tokens, self.permissions, self.finisher,
                self.dispatcher, self.stopper, self.executors, self.terminals.recovery,
            )  # fmt: skip
            housekeeper = asyncio.create_task(keep_house(self.store))
            upkeep = asyncio.create_task(self.upkeep.run())
            self.workspaces.open()
            try:
                await self.rotations.open()
                await recovery.recover(restored=earlier)
                restored.forget(self._home)
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

    async def _note_restored(self) -> bool:
        """Record in the audit log that the database was restored, if it was."""
        note = restored.read(self._home)
        if note is not None:
            noted = record("database.restored", **msgspec.structs.asdict(note))
            await self.store.commit(Write(records=[noted]))
        return note is not None

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
            server = ApiServer(self.app(api_settings(self._config, host)))
            bound = await server.start(
                host, port, preferred=self._home.last_port(), can_sign_in=self.people.can_sign_in
            )
            try:
                self._home.keep_port(bound)
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
        self.terminals.close()
        self.permissions.questions.close()
        await self.rotations.close()
        await self.executors.close(drain=drain)
        await self.stopper.close()
        await self.compactor.close()
        try:
            async with asyncio.timeout(self._config.daemon.stop_timeout_ms / 1000):
                await self.upkeep.finish()
                await self._settle()
        except TimeoutError:
            log.warning("not_all_settled", hint="The next daemon goes on from what is stored.")

    async def _settle(self) -> None:
        await self.terminals.endings.settled()
        await self.intake.settled()
        for live in self.lives.held():
            await live.channel.line.flushed()

    # ── the interface ────────────────────────────────────────────────────────────────────────

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
            transcripts=self.transcripts,
            credentials=self.credentials,
            rotations=self.rotations,
            receipts=self.receipts,
            feed=self.feed,
            openings=self.terminals.openings,
            terminals=self.terminals.terminals,
            accounts=self.accounts,
            api_tokens=self.api_tokens,
            sign_ins=self.sign_ins,
            signing_in=self.signing_in,
            identity=Identity(self.people, self.api_tokens, self.sign_ins),
            audit=self.audit,
            workspaces=self.workspaces,
            executors=self._executors_of,
            health=self.health,
            stall=lambda: self.store.stall,
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

    def _executors_of(self, who: Principal) -> list[ExecutorInfo]:
        everybody = access.may(who, "executor.list", "none")
        found = self.executors.describe()
        return [each for each in found if everybody or each.user_id == who.user_id]

    # ── how it is ────────────────────────────────────────────────────────────────────────────

    def _show_figures(self) -> None:
        """Set the figures that are looked up when they are asked for."""
        self.metrics.store_available.set(self.store.available)
        self.metrics.tasks_waiting.set(sum(len(live.queue) for live in self.lives.held()))
        self.metrics.terminals.set(len(self.terminals.opened))
        states = [each.state for each in self.executors.describe()]
        self.metrics.show_executors([*states, *["spare"] * self.executors.spares])

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


def _in_url(host: str) -> str:
    """Name the daemon as this machine reaches it, also if it listens on every address."""
    loopback = {"0.0.0.0": "127.0.0.1", "::": "::1", "localhost": "127.0.0.1"}  # noqa: S104 - not bound
    own = loopback.get(host.lower(), host)
    return f"[{own}]" if ":" in own else own

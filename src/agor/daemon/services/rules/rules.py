"""Permission rules, as people use them: made, tried out first, listed, revoked, exported."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from agor.daemon.services import access, views
from agor.daemon.services.access import Action
from agor.daemon.services.audit.records import record
from agor.daemon.services.live import LiveSession, LiveSessions, outlast
from agor.daemon.services.principal import Principal
from agor.daemon.services.receipts import Receipt
from agor.daemon.services.rules import past
from agor.daemon.services.rules.book import MOST_RULES, RuleBook, Verdict
from agor.daemon.services.rules.drafting import draft, draft_from_answer
from agor.daemon.services.rules.matching import Question, Rule
from agor.daemon.services.rules.paths import plain
from agor.daemon.services.stamps import new_id, now, time_of
from agor.daemon.store import rules, sessions
from agor.daemon.store.base import Store, Write
from agor.daemon.store.rows import AuditRecord, PermissionRow, RuleRow
from agor.errors import Conflict, NotFound, Unprocessable
from agor.protocol.api import Decision, Page
from agor.protocol.rules import NewRule, PermissionRule, RuleExport, RulePreview
from agor.protocol.validation import quoted

log = structlog.get_logger("agor.rules")


class Rules:
    """The rules of everybody."""

    def __init__(self, store: Store, lives: LiveSessions) -> None:
        self._store = store
        self._lives = lives
        self._book = RuleBook()
        #: Tells the time, by which rules expire.
        self.clock: Callable[[], int] = now
        #: Called with whose rules there are more of now.
        self.on_made: Callable[[str], None] = lambda _: None

    async def open(self) -> None:
        """Learn which rules hold."""
        for row in await rules.live(self._store, self.clock()):
            try:
                self._book.add(Rule(row))
            except ValueError as error:
                # An earlier program took what this one does not: then it decides nothing.
                log.error("rule_not_understood", rule=row.rule_id, why=str(error))

    def judge(self, question: Question) -> Verdict | None:
        """Decide a question without a person; none if that cannot be."""
        try:
            return self._book.judge(question, self.clock())
        except RecursionError:
            # Nested so deeply that it cannot be looked at: then a person has to.
            return None

    # ── made ─────────────────────────────────────────────────────────────────────────────────

    async def make(
        self, who: Principal, new: NewRule, receipt: Receipt | None = None
    ) -> PermissionRule:
        """Keep a rule. It holds from now on, also for what is being asked already."""
        rule = await self._draft(who, new)
        await self._make_room(who.user_id)
        shown = views.rule(rule.row)
        statements = [rules.insert(rule.row)]
        if receipt is not None:
            statements.append(receipt.statement(201, shown))
        await self._commit(Write(statements, records=[made(who, rule.row)]))
        self.apply(rule)
        return shown

    async def preview(self, who: Principal, new: NewRule) -> RulePreview:
        """Show what a rule would have decided, and keep nothing."""
        return await past.preview(self._store, await self._draft(who, new))

    async def draft_from_answer(
        self, who: Principal, decision: Decision, row: PermissionRow, live: LiveSession
    ) -> Rule:
        """Make the rule that goes with somebody's answer; it is kept with that."""
        if live.row.user_id != who.user_id:
            raise access.forbidden(who, "rule.make")
        await self._make_room(who.user_id)
        question = past.question_of(row, who.user_id, live.row.workspace)
        rule_id = new_id()
        return draft_from_answer(
            decision,
            question,
            row.permission_id,
            rule_id=rule_id,
            created_at=time_of(rule_id),
            at=self.clock(),
        )

    def apply(self, rule: Rule) -> None:
        """Have a rule hold that is stored now."""
        self._book.add(rule)
        log.info("rule_made", rule=rule.row.rule_id, effect=rule.row.effect)
        self.on_made(rule.row.user_id)

    async def _draft(self, who: Principal, new: NewRule) -> Rule:
        rule_id = new_id()
        rule = draft(
            new,
            rule_id=rule_id,
            user_id=who.user_id,
            created_at=time_of(rule_id),
            at=self.clock(),
        )
        row = rule.row
        if row.scope == "session":
            await self._lives.get_for(who, row.scope_id, "rule.make")
        elif row.scope == "workspace" and (
            not row.scope_id.startswith("/") or plain(row.scope_id, "/") is None
        ):
            raise Unprocessable(
                f"body.scope_id: {quoted(row.scope_id)} is not the path of a workspace",
                hint="It is absolute, without . or .. in it, as the session has it.",
            )
        return rule

    async def _make_room(self, user_id: str) -> None:
        """Refuse more rules than can be held, those of sessions that are gone not counted."""
        held = self._book.of(user_id, self.clock())
        if len(held) < MOST_RULES:
            return
        of_sessions = {rule.row.scope_id for rule in held if rule.row.scope == "session"}
        there = await sessions.workspaces(self._store, sorted(of_sessions))
        for rule in held:
            if rule.row.scope == "session" and rule.row.scope_id not in there:
                self._book.remove(rule.row)
        if len(self._book.of(user_id, self.clock())) >= MOST_RULES:
            raise Conflict(
                f"{MOST_RULES} rules of yours hold already",
                hint="Revoke some: `agor rule list`, `agor rule revoke ID`.",
            )

    # ── looked at, and revoked ───────────────────────────────────────────────────────────────

    async def page(
        self,
        who: Principal,
        user_id: str | None,
        cursor: str | None,
        limit: int,
        *,
        only_live: bool,
    ) -> Page[PermissionRule]:
        """List rules of one person, the newest first."""
        whose = self._whose(who, user_id)
        at = self.clock() if only_live else None
        rows = await rules.page(self._store, whose, at, views.read_cursor(cursor), limit + 1)
        return views.page(
            rows, limit, views.rule,
            lambda row: (row.created_at, row.rule_id), lambda row: len(row.exact_input or b""),
        )  # fmt: skip

    async def get(self, who: Principal, rule_id: str) -> PermissionRule:
        """Show a rule, also one that holds no more: it may have decided something."""
        return views.rule(await self._find(who, rule_id, "rule.list"))

    async def export(self, who: Principal, user_id: str | None) -> RuleExport:
        """Give all rules of a person that hold, to be kept or made again."""
        at = self.clock()
        rows = await rules.live(self._store, at, self._whose(who, user_id))
        return RuleExport(exported_at=at, rules=[views.rule_to_send(row) for row in rows])

    async def revoke(self, who: Principal, rule_id: str) -> None:
        """Have a rule hold no more, from now on. It is kept, for what it has decided."""
        row = await self._find(who, rule_id, "rule.revoke")
        if row.revoked_at is not None:
            return
        # At once: what is asked while this is being stored must not be decided by it any more.
        held = self._book.remove(row)
        revoked = record(
            "rule.revoked", who, subject=rule_id, session_id=_session_of(row), tool=row.tool
        )
        try:
            await self._commit(Write([rules.revoke(rule_id, self.clock())], records=[revoked]))
        except BaseException:
            if held is not None:
                self._book.add(held)
            raise
        log.info("rule_revoked", rule=rule_id)

    async def _find(self, who: Principal, rule_id: str, action: Action) -> RuleRow:
        row = await rules.get(self._store, rule_id)
        if row is not None:
            tie = access.tie_to(who, row.user_id, {})
            if access.may(who, action, tie):
                return row
            if access.may(who, "rule.list", tie):
                raise access.forbidden(who, action)
        raise NotFound(f"there is no permission rule {quoted(rule_id)}")

    def _whose(self, who: Principal, user_id: str | None) -> str:
        if user_id in (None, who.user_id):
            return who.user_id
        assert user_id is not None
        if not access.may(who, "rule.list", "none"):
            raise access.forbidden(who, "rule.list")
        return user_id

    async def _commit(self, write: Write) -> None:
        await outlast(self._store.commit(write))


def made(who: Principal, row: RuleRow) -> AuditRecord:
    """Write down that somebody made a rule. Its patterns stand in the rule itself."""
    return record(
        "rule.made", who, subject=row.rule_id, session_id=_session_of(row),
        effect=row.effect, scope=row.scope, scope_id=row.scope_id, tool=row.tool,
        permission_id=row.permission_id, expires_at=row.expires_at,
    )  # fmt: skip


def _session_of(row: RuleRow) -> str | None:
    return row.scope_id if row.scope == "session" else None

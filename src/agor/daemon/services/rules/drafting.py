"""Makes a rule of what somebody asks for; refuses what would allow more than they think. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from agor.daemon.services.rules.matching import Question, Rule
from agor.daemon.services.rules.patterns import Star, escape, pieces
from agor.daemon.services.rules.reading import canonical
from agor.daemon.store.rows import RuleRow
from agor.errors import Unprocessable
from agor.protocol.api import Decision
from agor.protocol.rules import NewRule, RuleEffect

#: Bytes of an input that a rule can be about exactly: all rules are held in memory.
_LONGEST_EXACT = 16 * 1024


def draft(new: NewRule, *, rule_id: str, user_id: str, created_at: int, at: int) -> Rule:
    """Make a rule of its form; raises `Unprocessable`. Its scope is for the caller to check."""
    if (new.input is None) == (new.exact_input is None):
        raise Unprocessable(
            "body.input: say which input the rule is for, by either `input` or `exact_input`",
            hint="`input` has patterns by member; {} is for any input at all.",
        )
    if new.expires_at is not None and new.expires_at <= at:
        raise Unprocessable(
            "body.expires_at: this is past", hint="It is in milliseconds since 1970."
        )
    scope_id = new.scope_id
    if new.scope == "user":
        if scope_id not in (None, user_id):
            raise Unprocessable("body.scope_id: a rule holds for nobody but who makes it")
        scope_id = user_id
    if scope_id is None:
        raise Unprocessable(f"body.scope_id: which {new.scope}?")
    if new.effect == "allow":
        _check_tool(new.tool)
    row = RuleRow(
        rule_id=rule_id,
        user_id=user_id,
        effect=new.effect,
        scope=new.scope,
        scope_id=scope_id,
        tool=new.tool,
        reason=new.reason,
        permission_id=None,
        created_at=created_at,
        expires_at=new.expires_at,
        revoked_at=None,
        input=None if new.input is None else canonical(new.input),
        exact_input=None if new.exact_input is None else _exactly(new.exact_input),
    )
    return _ready(row, new.input or {})


def draft_from_answer(
    decision: Decision,
    question: Question,
    permission_id: str,
    *,
    rule_id: str,
    created_at: int,
    at: int,
) -> Rule:
    """Make the rule that goes with an answer; without more it is about exactly this question."""
    given = decision.rule
    tool = None if given is None else given.tool
    patterns = None if given is None else given.input
    effect: RuleEffect = "allow" if decision.approved else "deny"
    assert decision.scope != "once"
    ids = {
        "session": question.session_id,
        "workspace": question.workspace,
        "user": question.user_id,
    }
    new = NewRule(
        effect=effect,
        scope=decision.scope,
        scope_id=ids[decision.scope],
        tool=escape(question.tool) if tool is None else tool,
        input=patterns,
        exact_input=dict(question.input) if patterns is None else None,
        expires_at=None if given is None else given.expires_at,
        reason=decision.reason,
    )
    made = draft(new, rule_id=rule_id, user_id=question.user_id, created_at=created_at, at=at)
    rule = Rule(msgspec.structs.replace(made.row, permission_id=permission_id))
    if not rule.would_decide(question):
        raise Unprocessable(
            "body.rule: this rule would not decide the very request that it is made with",
            hint="Leave `rule` out for exactly this tool with exactly this input.",
        )
    return rule


def _check_tool(tool: str) -> None:
    if isinstance(pieces(tool)[0], Star):
        raise Unprocessable(
            "body.tool: a rule that allows begins with the tool's name",
            hint="To allow every tool, give the session the mode bypassPermissions.",
        )


def _exactly(tool_input: dict[str, Any]) -> bytes:
    written = canonical(tool_input)
    if len(written) > _LONGEST_EXACT:
        raise Unprocessable(
            f"body.exact_input: a rule is about at most {_LONGEST_EXACT} bytes of input exactly",
            hint='Say by patterns what matters of it: `input`, as in {"file_path": "./src/**"}.',
        )
    return written


def _ready(row: RuleRow, patterns: dict[str, str]) -> Rule:
    if row.effect == "allow":
        for name, pattern in patterns.items():
            _check_pattern(name, pattern)
    try:
        return Rule(row)
    except ValueError as error:
        raise Unprocessable(f"body.input: {error}") from None


def _check_pattern(name: str, pattern: str) -> None:
    found = pieces(pattern)
    if len(found) > 1 and isinstance(found[0], Star) and str(found[1]).startswith(" "):
        raise Unprocessable(
            f"body.input.{name}: a pattern that allows cannot begin with any words: they could be "
            "any program",
            hint="Begin with the command itself, as in: git log *",
        )
    if pattern.startswith("~"):
        raise Unprocessable(
            f"body.input.{name}: whose home ~ is depends on who reads it",
            hint="Write the whole path, or ./ for the workspace.",
        )

"""All rules that hold, in memory, since every question of every agent is looked up in them.

The order: a rule that denies, then the task's mode, then a rule that allows; then a person is
asked. Of several rules of a kind the oldest counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from agor.daemon.services.rules import modes
from agor.daemon.services.rules.matching import Question, Rule
from agor.daemon.store.rows import RuleRow

#: Rules of one person that hold at the same time.
MOST_RULES = 1000


class Verdict(Struct, frozen=True):
    """An answer that needed nobody."""

    approved: bool
    #: The rule's id, or `mode:` and the mode.
    by: str
    reason: str


def judge(rules: Sequence[Rule], question: Question, at: int) -> Verdict | None:
    """Decide a question; none if a person has to."""
    for rule in rules:
        if rule.denies and rule.is_about(question, at):
            return Verdict(False, rule.row.rule_id, _reason("denied", rule.row))
    if modes.mode_decides(question):
        return Verdict(True, f"mode:{question.mode}", f"allowed by its mode, {question.mode}")
    if modes.keeps_rules_out(question):
        return None
    for rule in rules:
        if not rule.denies and rule.is_about(question, at):
            return Verdict(True, rule.row.rule_id, _reason("allowed", rule.row))
    return None


def _reason(verb: str, row: RuleRow) -> str:
    why = f": {row.reason}" if row.reason else ""
    return f"{verb} by the rule {row.rule_id}{why}"


class RuleBook:
    """The rules of everybody that hold now."""

    def __init__(self) -> None:
        self._of_user: dict[str, dict[str, Rule]] = {}

    def add(self, rule: Rule) -> None:
        """Take in a rule that is stored."""
        self._of_user.setdefault(rule.row.user_id, {})[rule.row.rule_id] = rule

    def remove(self, row: RuleRow) -> Rule | None:
        """Take a rule out; gives it, if it was there."""
        return self._of_user.get(row.user_id, {}).pop(row.rule_id, None)

    def of(self, user_id: str, at: int) -> list[Rule]:
        """List a person's rules that hold at a time, the oldest first; forgets those that did."""
        held = self._of_user.get(user_id, {})
        for rule in [rule for rule in held.values() if not rule.is_live(at)]:
            del held[rule.row.rule_id]
        return sorted(held.values(), key=lambda rule: (rule.row.created_at, rule.row.rule_id))

    def judge(self, question: Question, at: int) -> Verdict | None:
        """Decide a question by the rules of the person whose session asks."""
        return judge(self.of(question.user_id, at), question, at)

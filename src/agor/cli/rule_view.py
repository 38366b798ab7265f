"""Shows permission rules, and what they would have decided, as lines that people can read."""

from __future__ import annotations

import json
import time

from rich.console import Console
from rich.text import Text

from agor.cli.printable import printable
from agor.cli.tables import print_table
from agor.cli.tool_calls import brief
from agor.protocol.rules import PermissionRule, RulePreview

#: Past requests that are shown one by one.
_MOST_SHOWN = 10
_LONGEST = 60


def print_rules(rules: list[PermissionRule]) -> None:
    """Print a table, one line a rule."""
    rows = [("id", "says", "tool", "input", "holds in", "until")]
    rows += [
        (rule.rule_id, rule.effect, _line(rule.tool), _input(rule), _place(rule), _end(rule))
        for rule in rules
    ]
    print_table(rows)


def print_preview(found: RulePreview, console: Console) -> None:
    """Print what a rule would have decided."""
    them = "all requests so far" if found.complete else f"the last {found.looked_at} requests"
    console.print(
        Text(f"Of {them} ({found.looked_at}) it would have decided {found.matched}.", "bold")
    )
    for item in found.items[:_MOST_SHOWN]:
        line = f"  {item.status:<9}  {_time(item.created_at)}  {_line(item.tool_name)}  "
        console.print(Text(line + brief(item.tool_name, item.tool_input)))
    if found.matched > len(found.items[:_MOST_SHOWN]):
        console.print(Text(f"  … and {found.matched - _MOST_SHOWN} more", "dim"))


def _input(rule: PermissionRule) -> str:
    if rule.exact_input is not None:
        return _line("exactly " + json.dumps(rule.exact_input, ensure_ascii=False))
    given = rule.input or {}
    return _line(", ".join(f"{name}={pattern}" for name, pattern in given.items())) or "any"


def _place(rule: PermissionRule) -> str:
    if rule.scope == "user":
        return "everywhere"
    return _line(f"{rule.scope} {rule.scope_id}")


def _end(rule: PermissionRule) -> str:
    if rule.revoked_at is not None:
        return f"revoked {_time(rule.revoked_at)}"
    return "it is revoked" if rule.expires_at is None else _time(rule.expires_at)


def _time(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(milliseconds / 1000))


def _line(text: str) -> str:
    shown = " ".join(printable(text).split())
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"

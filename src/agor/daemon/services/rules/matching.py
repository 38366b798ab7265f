"""Whether a rule is about a question. Pure: no clock, no store, nothing that waits.

A rule that allows and one that denies read the same pattern differently, each towards caution: the
one is about less, if in doubt, and the other about more. See `patterns`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from agor.daemon.services.rules import paths, patterns
from agor.daemon.services.rules.patterns import Generous
from agor.daemon.store.rows import RuleRow
from agor.protocol.methods import PermissionMode

#: Members of tools' inputs that are paths, by the agents that we know.
PATH_MEMBERS = frozenset(
    ("file_path", "filePath", "path", "notebook_path", "absolute_path", "abs_path", "dir_path",
     "directory", "cwd", "workdir")
)  # fmt: skip
#: Members that let a call do more than others: a rule that does not name them does not allow it.
WIDENING = frozenset(
    ("dangerouslyDisableSandbox", "with_escalated_permissions", "sandbox_permissions")
)

#: What stands between the commands of one line.
_BETWEEN = re.compile(r"[;&|(){}`\r\n]+|\$\(")
_MISSING = object()


class Question(Struct, frozen=True, kw_only=True):
    """May this tool run, in this session?"""

    user_id: str
    session_id: str
    workspace: str
    tool: str
    input: Mapping[str, Any]
    mode: PermissionMode


def canonical(value: object) -> bytes:
    """Write a value as JSON, always in the same way."""
    return msgspec.json.encode(value, order="sorted")


def member(tool_input: Mapping[str, Any], name: str) -> object:
    """Find a member of an input: by its name, or by a JSON Pointer (`/edits/0/path`)."""
    if not name.startswith("/"):
        return tool_input.get(name, _MISSING)
    value: object = tool_input
    for token in _tokens(name):
        if isinstance(value, Mapping):
            value = value.get(token, _MISSING)
        elif isinstance(value, list) and token.isascii() and token.isdecimal():
            at = int(token[:9])
            value = value[at] if str(at) == token and at < len(value) else _MISSING
        else:
            return _MISSING
    return value


def _tokens(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]


def last_name(name: str) -> str:
    """Give the name of the member itself."""
    return _tokens(name)[-1] if name.startswith("/") else name


# ── one member ───────────────────────────────────────────────────────────────────────────────

#: Tells whether a value fits, in a workspace.
Check = Callable[[object, str], bool]


def allowing(name: str, pattern: str) -> Check:
    """Read a pattern for a member strictly; raises ValueError if it can mean nothing good."""
    if last_name(name) in PATH_MEMBERS and pattern.startswith(("/", "./")):
        return _path_check(pattern)
    if patterns.is_address(pattern):
        address = patterns.for_address(pattern)
        return lambda value, _: (
            isinstance(value, str) and patterns.is_straight(value) and address.fits(value)
        )
    text = patterns.for_text(pattern)
    return lambda value, _: text.fits(_text_of(value))


def _path_check(pattern: str) -> Check:
    strict = patterns.for_path(pattern)
    # Who means what is in there says so.
    guards = paths.is_guarded(patterns.literal_text(pattern))

    def check(value: object, workspace: str) -> bool:
        path = paths.plain(value, workspace) if isinstance(value, str) else None
        if path is not None and pattern.startswith("./"):
            inside = paths.below(path, workspace)
            path = None if inside is None else f"./{inside}"
        if path is None or (paths.is_guarded(path) and not guards):
            return False
        return strict.fits(path)

    return check


def denying(pattern: str) -> Check:
    """Read a pattern generously: in whatever way the value can be read, it may not fit."""
    generous = [Generous(pattern)]
    if pattern.endswith(":*"):
        generous.append(Generous(f"{pattern[:-2]}*"))

    def check(value: object, workspace: str) -> bool:
        return any(
            each.fits(reading) for reading in _readings(value, workspace) for each in generous
        )

    return check


def _readings(value: object, workspace: str) -> Iterator[str]:
    """Give all that a value may mean: a text, a path, commands one after the other, words."""
    texts = [_text_of(value)]
    if isinstance(value, list):
        words = [word for word in value if isinstance(word, str)]
        texts += [*words, " ".join(words)]
    for text in texts:
        yield text
        if len(text) <= patterns.LONGEST:
            path = paths.resolved(text, workspace)
            yield path
            inside = paths.below(path, workspace)
            if inside is not None:
                yield f"./{inside}"
        for command in _BETWEEN.split(text):
            yield " ".join(command.split())


def _text_of(value: object) -> str:
    return value if isinstance(value, str) else canonical(value).decode()


# ── a whole rule ─────────────────────────────────────────────────────────────────────────────


class Rule:
    """A rule, ready for use. Making it raises ValueError if a pattern of it means nothing good."""

    def __init__(self, row: RuleRow) -> None:
        self.row = row
        self._tool = Generous(row.tool)
        self._checks: dict[str, Check] = {}
        if row.input is not None:
            given = msgspec.json.decode(row.input, type=dict[str, str])
            for name, pattern in given.items():
                self._checks[name] = (
                    allowing(name, pattern) if row.effect == "allow" else denying(pattern)
                )

    @property
    def denies(self) -> bool:
        """Whether it is a no."""
        return self.row.effect == "deny"

    def is_live(self, at: int) -> bool:
        """Tell whether it holds at a time."""
        row = self.row
        return row.revoked_at is None and (row.expires_at is None or at < row.expires_at)

    def is_about(self, question: Question, at: int) -> bool:
        """Tell whether it decides a question at a time."""
        return self.is_live(at) and self.would_decide(question)

    def would_decide(self, question: Question) -> bool:
        """Tell whether it is about a question, whenever that was asked."""
        return (
            self._covers(question)
            and self._tool.fits(question.tool)
            and self._fits(question.input, question.workspace)
        )

    def _covers(self, question: Question) -> bool:
        """Tell whether a question comes from where the rule holds: never from somebody else's."""
        row = self.row
        if row.user_id != question.user_id:
            return False
        match row.scope:
            case "session":
                return row.scope_id == question.session_id
            case "workspace":
                return row.scope_id.rstrip("/") == question.workspace.rstrip("/")
            case "user":
                return row.scope_id == question.user_id

    def _fits(self, tool_input: Mapping[str, Any], workspace: str) -> bool:
        if self.row.exact_input is not None:
            return canonical(tool_input) == self.row.exact_input
        if not self.denies and any(
            tool_input.get(name) and name not in self._checks for name in WIDENING
        ):
            return False
        for name, check in self._checks.items():
            value = member(tool_input, name)
            if value is _MISSING or not check(value, workspace):
                return False
        return True

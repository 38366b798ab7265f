"""Whether a rule is about a question. Pure: no clock, no store, nothing that waits.

A rule that allows and one that denies read the same pattern differently, each towards caution: the
one is about less, if in doubt, and the other about more. See `patterns`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct

from agor.daemon.services.rules import paths, patterns
from agor.daemon.services.rules.patterns import Generous
from agor.daemon.services.rules.reading import Reading, canonical
from agor.daemon.store.rows import RuleRow
from agor.protocol.methods import PermissionMode

#: Members of tools' inputs that are paths, by the agents that we know.
PATH_MEMBERS = frozenset(
    ("file_path", "filePath", "path", "notebook_path", "absolute_path", "abs_path", "dir_path",
     "directory", "cwd", "workdir")
)  # fmt: skip
#: Members that let a call do more than others: a rule that does not name them does not allow it,
#: and neither does `acceptEdits`. The last two are a folder to be written to from now on.
WIDENING = frozenset(
    ("dangerouslyDisableSandbox", "with_escalated_permissions", "sandbox_permissions",
     "grantRoot", "grant_root")
)  # fmt: skip

_MISSING = object()


class Question(Struct, frozen=True, kw_only=True, dict=True):
    """May this tool run, in this session?"""

    user_id: str
    session_id: str
    workspace: str
    tool: str
    input: Mapping[str, Any]
    mode: PermissionMode

    @cached_property
    def _readings(self) -> dict[str, Reading | None]:
        return {}

    def reading(self, name: str) -> Reading | None:
        """Read a member of the input; none if it is not there."""
        if name not in self._readings:
            value = member(self.input, name)
            found = None if value is _MISSING else Reading(value, self.workspace)
            self._readings[name] = found
        return self._readings[name]

    @property
    def widening(self) -> list[str]:
        """List what makes it more than a call like others."""
        return [name for name in WIDENING if self.input.get(name)]

    @cached_property
    def whole_input(self) -> bytes:
        """The input in the one way that it is always written."""
        return canonical(self.input)


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

#: Tells whether a value fits.
Check = Callable[[Reading], bool]


def allowing(name: str, pattern: str) -> Check:
    """Read a pattern for a member strictly; raises ValueError if it can mean nothing good."""
    if last_name(name) in PATH_MEMBERS and pattern.startswith(("/", "./")):
        return _path_check(pattern)
    if patterns.is_address(pattern):
        address = patterns.for_address(pattern)
        return lambda reading: (
            isinstance(reading.value, str)
            and patterns.is_straight(reading.value)
            and address.fits(reading.value)
        )
    text = patterns.for_text(pattern)
    return lambda reading: text.fits(reading.text)


def _path_check(pattern: str) -> Check:
    strict = patterns.for_path(pattern)
    # Who means what is in there says so.
    guards = paths.is_guarded(patterns.literal_text(pattern))

    def check(reading: Reading) -> bool:
        path = reading.path_inside if pattern.startswith("./") else reading.path
        if path is None or (paths.is_guarded(path) and not guards):
            return False
        return strict.fits(path)

    return check


def denying(pattern: str) -> Check:
    """Read a pattern generously: in whatever way the value can be read, it may not fit."""
    spelled = {pattern, pattern.replace("/**/", "/")}
    if pattern.endswith(":*"):
        spelled.add(f"{pattern[:-2]}*")
    generous = [Generous(each) for each in sorted(spelled)]
    return lambda reading: any(map(reading.may_mean, generous))


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
        return self._covers(question) and self._tool.fits(question.tool) and self._fits(question)

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

    def _fits(self, question: Question) -> bool:
        if self.row.exact_input is not None:
            return question.whole_input == self.row.exact_input
        if not self.denies and any(name not in self._checks for name in question.widening):
            return False
        for name, check in self._checks.items():
            reading = question.reading(name)
            if reading is None or not check(reading):
                return False
        return True

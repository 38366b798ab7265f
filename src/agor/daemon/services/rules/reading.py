"""A member of a tool's input, in all the ways that it can be read. Pure.

Each way is worked out once, however many rules look at it: an input may be long, and so may a list
of rules.
"""

from __future__ import annotations

import re
from functools import cached_property

import msgspec

from agor.daemon.services.rules import paths
from agor.daemon.services.rules.patterns import LONGEST, Generous

#: What stands between the commands of one line.
_BETWEEN = re.compile(r"[;&|(){}`\r\n]+|\$\(")
#: A line that goes on in the next one.
_GOES_ON = re.compile(r"\\\r?\n")
#: What may stand before the command itself, with single spaces: `FOO=1 sudo`, `then`, `sh -c`.
_BEFORE = re.compile(
    r"""\A(?:(?:if|then|elif|else|while|until|do|!|time|exec|command|nohup|env|sudo)[ ]
    |[A-Za-z_][A-Za-z0-9_]*=(?:[^\s'"]|'[^']*'|"[^"]*")*[ ]
    |(?:/[a-z/]*/)?(?:ba|da|k|z)?sh[ ](?:-[a-z]+[ ])+['"]?)+""",
    re.VERBOSE,
)
#: What a command may be wrapped in and still be the same one.
_WRAPPING = "'\"\\ "
#: Commands of one value that are looked at closely, and how long a text may be to be taken apart.
#: With more, whoever denies is right as soon as the words are there.
_MOST_COMMANDS = 1000
_LONGEST_TAKEN_APART = 256 * 1024


def canonical(value: object) -> bytes:
    """Write a value as JSON, always in the same way."""
    return msgspec.json.encode(value, order="sorted")


class Reading:
    """A value, where it means something."""

    def __init__(self, value: object, workspace: str) -> None:
        self.value = value
        self.workspace = workspace

    @cached_property
    def text(self) -> str:
        """What is no text is read as JSON."""
        return self.value if isinstance(self.value, str) else canonical(self.value).decode()

    @cached_property
    def path(self) -> str | None:
        """The path that it is; none if it is none, or one that plays tricks."""
        return paths.plain(self.value, self.workspace) if isinstance(self.value, str) else None

    @cached_property
    def path_inside(self) -> str | None:
        """The same from the workspace on, beginning with `./`; none if it is not inside."""
        inside = None if self.path is None else paths.below(self.path, self.workspace)
        return None if inside is None else f"./{inside}"

    # ── generously ───────────────────────────────────────────────────────────────────────────

    @cached_property
    def _texts(self) -> list[str]:
        """What it may mean as a whole: a text, a path, words one by one."""
        texts = [self.text]
        if isinstance(self.value, list):
            words = [word for word in self.value if isinstance(word, str)]
            texts += [*words[:_MOST_COMMANDS], " ".join(words)]
        for text in texts[:]:
            if len(text) <= LONGEST:
                path = paths.resolved(text, self.workspace)
                inside = paths.below(path, self.workspace)
                texts += [path] if inside is None else [path, f"./{inside}"]
        return texts

    @cached_property
    def _commands(self) -> str:
        """Every command that may be in it, each on a line of its own, with single spaces."""
        found: dict[str, None] = {}
        for text in self._texts:
            for part in _BETWEEN.split(_GOES_ON.sub(" ", text)):
                command = " ".join(part.split())
                found[command] = None
                found[_BEFORE.sub("", command, count=1).strip(_WRAPPING)] = None
        return "\n".join(("", *found, ""))

    def may_mean(self, pattern: Generous) -> bool:
        """Tell whether there is a way to read it that fits."""
        return any(map(pattern.fits, self._texts)) or self._has_command(pattern)

    def _has_command(self, pattern: Generous) -> bool:
        if len(self.text) > _LONGEST_TAKEN_APART:
            return all(word in self.text for word in pattern.words)
        start, lines = pattern.start, self._commands
        at = lines.find(f"\n{start}")
        for _ in range(_MOST_COMMANDS):
            if at < 0:
                return False
            end = lines.find("\n", at + 1)
            if pattern.fits(lines[at + 1 : end if end >= 0 else len(lines)]):
                return True
            at = lines.find(f"\n{start}", at + 1)
        return at >= 0

"""The language of patterns: a text in which `*` stands for more. Pure.

What allows is read strictly: `*` stands for what a person who wrote it has in mind, and for nothing
that begins another command or leaves a folder. What denies is read generously: `*` stands for
anything. `\\*` is a star and `\\\\` a backslash.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from agor.daemon.services.rules.automaton import Automaton, Literal, Many, Perhaps, Step

#: A `*` in what allows stands for nothing in a text of more characters.
LONGEST = 4096

#: What ends a command, begins another one, or has the shell put something else in its place.
_SHELL = frozenset(";&|<>$`(){}\\")
_QUOTES = frozenset("'\"")
_WORD = frozenset(" /")
#: `..` as a part of a path, wherever in a text that is; or what a shell may find it by (`.?`).
_CLIMB = re.compile(r"(?:^|[\s/'\"=:,])\.(?:\.(?=$|[\s/'\",:*])|[*?\[])")
_QUOTE = re.compile("['\"]")
_SPELLING = re.compile(r"\\([*\\])|(\*+)", re.DOTALL)
_ADDRESS = re.compile(r"https?://")
_PARTS_OF_ADDRESS = re.compile(r"[/?#;]")


class Star(NamedTuple):
    """A `*`, or `**`, which goes over `/` as well."""

    deep: bool


Piece = str | Star


def pieces(pattern: str) -> list[Piece]:
    """Take a pattern apart into text and stars."""
    found: list[Piece] = []
    text, at = "", 0
    for special in _SPELLING.finditer(pattern):
        text += pattern[at : special.start()]
        at = special.end()
        if special[1] is not None:
            text += special[1]
        else:
            found += [text, Star(len(special[2]) > 1)]
            text = ""
    return [piece for piece in (*found, text + pattern[at:]) if piece != ""]


def escape(text: str) -> str:
    """Write the pattern that fits exactly this text."""
    return text.replace("\\", "\\\\").replace("*", "\\*")


def literal_text(pattern: str) -> str:
    """Give what a pattern spells itself, without its stars."""
    return "".join(piece for piece in pieces(pattern) if isinstance(piece, str))


# ── generous: for what denies, and for names of tools ────────────────────────────────────────


class Generous:
    """A pattern whose stars stand for anything."""

    def __init__(self, pattern: str) -> None:
        found = pieces(pattern)
        self._texts = [piece for piece in found if isinstance(piece, str)]
        self._whole = not any(isinstance(piece, Star) for piece in found)
        #: What every text that fits begins and ends with.
        self.start = found[0] if found and isinstance(found[0], str) else ""
        self._end = found[-1] if found and isinstance(found[-1], str) else ""
        first, last = bool(self.start), len(self._texts) - bool(self._end)
        self._between = self._texts[first:last]
        self.words = " ".join(self._texts).split()

    def fits(self, text: str) -> bool:
        """Tell whether a text fits. The first place for each part is the best one."""
        if self._whole:
            return text == self.start
        start, end = len(self.start), len(text) - len(self._end)
        if end < start or not text.startswith(self.start) or not text.endswith(self._end):
            return False
        for part in self._between:
            place = text.find(part, start, end)
            if place < 0:
                return False
            start = place + len(part)
        return True


# ── strict: for what allows ──────────────────────────────────────────────────────────────────


class Strict:
    """A pattern whose stars stand for little, by what kind of text it is for."""

    def __init__(self, pattern: str, steps: Iterator[Step]) -> None:
        found = pieces(pattern)
        self._start = found[0] if found and isinstance(found[0], str) else ""
        self._texts = [piece for piece in found if isinstance(piece, str)]
        self._climbs = _count_climbs("".join(self._texts))
        self._automaton = Automaton(list(steps)) if len(self._texts) < len(found) else None

    def fits(self, text: str) -> bool:
        """Tell whether a text fits."""
        if self._automaton is None:
            return text == self._start
        if len(text) > LONGEST or not text.startswith(self._start):
            return False
        # Most texts do not even have what the pattern spells: no need to read them step by step.
        if not all(part in text for part in self._texts):
            return False
        if _count_climbs(text) > self._climbs:
            return False
        return self._automaton.fits(text)


def _count_climbs(text: str) -> int:
    """Count the ways up in a text: as it is, and as a shell has it, to which `.''.` is `..`."""
    return max(len(_CLIMB.findall(each)) for each in (text, _QUOTE.sub("", text)))


def for_text(pattern: str) -> Strict:
    """Read a pattern for a command, or for any text.

    A `*` between spaces stands for any words. One at the end of a word that ends the pattern stands
    for nothing or for further words (`git diff*`; also written `git diff:*`). Any other is within
    one word, and does not go over `/` unless it is `**`.
    """
    if pattern.endswith(":*"):
        pattern = f"{pattern[:-2]}*"
    refused = _SHELL | (_QUOTES & set(literal_text(pattern)))
    return Strict(pattern, _text_steps(pieces(pattern), refused))


def _text_steps(found: list[Piece], refused: frozenset[str]) -> Iterator[Step]:
    for place, piece in enumerate(found):
        if isinstance(piece, str):
            yield from map(Literal, piece)
            continue
        before = _text_at(found, place - 1)[-1:]
        after = _text_at(found, place + 1)[:1]
        if before in ("", " ") and after in ("", " "):
            yield Many(refused)
        elif not after and (before.isalnum() or before == "_"):
            yield from (Perhaps(2), Literal(" "), Many(refused))
        else:
            yield Many(refused | {" "} if piece.deep else refused | _WORD)


def _text_at(found: list[Piece], place: int) -> str:
    piece = found[place] if 0 <= place < len(found) else ""
    return piece if isinstance(piece, str) else ""


def for_path(pattern: str) -> Strict:
    """Read a pattern for a plain path: `*` stays in its folder, `**` not; `/**/` may be `/`."""
    return Strict(pattern, _slashed_steps(pieces(pattern), frozenset("/\\"), frozenset("\\")))


def for_address(pattern: str) -> Strict:
    """Read a pattern for an `http` address: the host stands at its end as it is spelled.

    Raises ValueError if it does not.
    """
    host = pattern.split("://", 1)[1].split("/", 1)[0]
    if "*" in host.removeprefix("*.") or "\\" in host or host in ("", "*."):
        raise ValueError(
            "a * in an address is the beginning of its host, as in https://*.example.org/**, or is "
            "behind its host: https://example.org/**"
        )
    within = frozenset("/\\ ?#@:%")
    return Strict(pattern, _slashed_steps(pieces(pattern), within, frozenset("\\ ")))


def _slashed_steps(
    found: list[Piece], within: frozenset[str], deep: frozenset[str]
) -> Iterator[Step]:
    steps: list[Step] = []
    for place, piece in enumerate(found):
        if isinstance(piece, str):
            steps += map(Literal, piece)
        elif not piece.deep:
            steps.append(Many(within))
        else:
            between = _text_at(found, place - 1)[-1:] == _text_at(found, place + 1)[:1] == "/"
            # The `/` behind it is left out with it.
            steps += [Perhaps(2), Many(deep)] if between else [Many(deep)]
    return iter(steps)


def is_address(pattern: str) -> bool:
    """Tell whether a pattern is one for an address."""
    return _ADDRESS.match(pattern) is not None


def is_straight(address: str) -> bool:
    """Tell whether an address is what it looks like: no way up, also not an encoded one."""
    decoded = address.lower().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/")
    return ".." not in _PARTS_OF_ADDRESS.split(decoded) and "\\" not in address

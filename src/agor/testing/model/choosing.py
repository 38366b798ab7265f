"""Which turn of which script answers a question.

The question tells: a script is in what a user wrote, and how far it was played is what the model
said after it. So retries, sessions side by side and agents' calls for other purposes are answered
rightly without the server remembering anything.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from agor.testing.model.asked import Asked, Entry, turns_in
from agor.testing.model.fitting import fitting
from agor.testing.model.script import Script, Turn, find_script, saying

_LONGEST_ECHO = 200
#: More often than any fault is scripted to happen, unless it always does.
_EVER = 2**53


def choose(asked: Asked, own: Script | None = None, attempt: int = 0) -> Turn:
    """Choose the turn to play to a question that came `attempt` times before.

    `own` is for conversations that bring no script along.
    """
    if asked.schema is not None and not asked.tools:
        return saying(msgspec.json.encode(fitting(asked.schema)).decode())
    script, since = _last_script(asked)
    if script is None:
        script, since = own, 0
    if script is None or _is_aside(asked, script):
        return echo(asked)
    number, failed = _progress(asked.entries[since:], script)
    if number >= len(script):
        words = f"The script has ended: all of its {len(script)} turns were played."
        return replace(saying(words), number=number)
    return script[number].at(max(attempt, failed))


def _progress(entries: tuple[Entry, ...], script: Script) -> tuple[int, int]:
    """Tell which turn it is, and how often it was begun in vain.

    After a fault in mid-answer some agents keep what had come, and ask for the rest.
    """
    number = failed = 0
    for said in turns_in(entries):
        if number < len(script) and (copies := _unfinished(script[number], failed, said)):
            failed += copies
        else:
            number += 1
            failed = 0
    return number, failed


def _unfinished(turn: Turn, failed: int, said: str) -> int:
    """Count how often a turn was begun in vain, if that is all of what the model said."""
    beginning = turn.at(failed).until_fault()
    if beginning is None:
        return 0
    if turn.at(_EVER).until_fault() is not None:
        # It never succeeds.
        return 1
    begun, whole, heard = _squeeze(beginning.text), _squeeze(turn.text), _squeeze(said)
    copies = max(1, len(heard) // len(begun)) if begun else 1
    return copies if heard == begun * copies and heard != whole else 0


def _squeeze(text: str) -> str:
    """Leave out what agents do not keep as it was."""
    return "".join(text.split())


def echo(asked: Asked) -> Turn:
    """Answer with the beginning of what the user said last."""
    said = [text for entry in asked.entries if entry.who == "user" for text in entry.texts]
    last = next((text.strip() for text in reversed(said) if text.strip()), "")
    short = last if len(last) <= _LONGEST_ECHO else f"{last[:_LONGEST_ECHO]}…"
    return replace(saying(f"echo: {short}"), number=len(turns_in(asked.entries)))


def _last_script(asked: Asked) -> tuple[Script | None, int]:
    """Find the last script, and the place behind it."""
    for place in range(len(asked.entries), 0, -1):
        entry = asked.entries[place - 1]
        if entry.who == "user":
            script = find_script("\n".join(entry.texts))
            if script is not None:
                return script, place
    return None, 0


def _is_aside(asked: Asked, script: Script) -> bool:
    """Tell whether an agent asks for itself, about a title for example, and quotes the user.

    It offers no tools then.
    """
    return not asked.tools and any(turn.calls_tools for turn in script)

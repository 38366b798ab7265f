"""Changes to config.yaml: one setting at a time, checked first, written whole or not at all.

A lock keeps two changes at once from losing one of them. A file that is a link stays one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from agor import private
from agor.config.changes import with_value, without_value
from agor.config.keys import KEYS, SECTIONS, Key
from agor.config.reading import checked, from_text, read_text
from agor.config.refusal import unknown_key
from agor.errors import BadConfig
from agor.home import Home

#: Seconds that others may take for their change.
_PATIENCE = 10.0


def set_value(home: Home, name: str, text: str) -> str:
    """Set a setting to what a person typed; returns the value as it is shown."""
    key = key_named(name)
    value = key.kind.parse(text)
    shown = key.kind.show(checked(key, value))
    file = str(home.config_file)
    _change(home, lambda before: with_value(before, key.path, value, file))
    return shown


def unset_value(home: Home, name: str) -> bool:
    """Take a setting out of the file; tells whether it was there.

    Names that mean nothing can be taken out, too: the file may have one.
    """
    if name in SECTIONS:
        raise unknown_key(name)
    path, file = name.split("."), str(home.config_file)
    changed = _change(home, lambda before: without_value(before, path, file))
    if not changed:
        key_named(name)
    return changed


def problem_of(home: Home) -> BadConfig | None:
    """Tell what is wrong with the file, if something is."""
    try:
        from_text(read_text(home.config_file), home.config_file)
    except BadConfig as error:
        return error
    return None


def key_named(name: str) -> Key:
    """Look a setting up by its name, or say which ones there are."""
    try:
        return KEYS[name]
    except KeyError:
        raise unknown_key(name) from None


def _change(home: Home, change: Callable[[str], str]) -> bool:
    with _alone(home):
        # Renaming over a link would replace the link.
        path = home.config_file.resolve()
        before = read_text(path)
        after = change(before)
        if after == before:
            return False
        private.write(path, after.encode())
        return True


@contextlib.contextmanager
def _alone(home: Home) -> Iterator[None]:
    home.prepare()
    path: Path = home.runtime / "config.lock"
    fd = private.open_to_write(path)
    try:
        if not private.locked_within(fd, _PATIENCE):
            raise BadConfig("somebody else is changing the configuration", hint="Try again.")
        yield
    finally:
        os.close(fd)

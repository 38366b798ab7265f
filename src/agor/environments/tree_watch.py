"""A watch on a tree of files of this machine, as our own user.

The kernel says where something happened; what happened is found by looking there and comparing
with what was known. So it does not matter in which order or how often the kernel says it, and when
it had to drop something, everything is looked at again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os

import structlog

from agor.environments.base import MAX_ENTRIES, Change, OnChanges, Watch
from agor.environments.files_directly import explaining, too_many
from agor.environments.inotify import Inotify
from agor.environments.polling import tell
from agor.environments.snapshots import Mark, is_temporary, mark_of
from agor.errors import EnvironmentFailed

log = structlog.get_logger("agor.environments")

#: Seconds to let a burst of changes gather.
_GATHER = 0.02


class TreeWatch(Watch):
    """Watches a folder with all below it, or a single file.

    The table of what is known belongs to one thread at a time: the one that looks. The event loop
    only notes where to look.
    """

    def __init__(self, path: str, callback: OnChanges) -> None:
        self._callback = callback
        self._top = path
        # A file that is replaced becomes another file: its folder is watched for its name.
        self._only = None if os.path.isdir(path) else path  # noqa: PTH112 - paths are text here
        self._inotify = Inotify.acquire()
        self._known: dict[str, dict[str, Mark]] = {}
        self._count = 0
        self._folder_of: dict[int, str] = {}
        self._number_of: dict[str, int] = {}
        self._dirty: set[str] = set()
        self._all_dirty = False
        self._something = asyncio.Event()
        self._stopped = False
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Look for the first time; from then on, changes are told."""
        first = asyncio.ensure_future(asyncio.to_thread(self._first_look))
        try:
            await asyncio.shield(first)
        except BaseException:
            self._stopped = True
            await asyncio.wait((first,))
            self._let_go()
            raise
        self._task = asyncio.create_task(self._go_on())

    async def unwatch(self) -> None:
        """Stop, once a look that is under way is over."""
        self._stopped = True
        self._something.set()
        if self._task:
            await asyncio.shield(self._task)

    def on_event(self, number: int, name: str) -> None:
        """Note where to look."""
        folder = self._folder_of.get(number)
        if folder is None or is_temporary(name):
            return
        path = os.path.join(folder, name) if name else folder  # noqa: PTH118
        if self._only is None or path == self._only:
            self._dirty.add(path)
            self._something.set()

    def on_overflow(self) -> None:
        """Note that everything has to be looked at."""
        self._all_dirty = True
        self._something.set()

    async def _go_on(self) -> None:
        try:
            while True:
                await self._something.wait()
                if not self._stopped:
                    await asyncio.sleep(_GATHER)
                if self._stopped:
                    return
                self._something.clear()
                dirty, self._dirty = self._dirty, set()
                everything, self._all_dirty = self._all_dirty, False
                changes = await asyncio.to_thread(self._look, dirty, everything)
                if not self._stopped:
                    tell(self._callback, changes)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        for number in list(self._folder_of):
            self._inotify.remove(number, self)
        self._inotify.release()

    def _first_look(self) -> None:
        with explaining("watch", self._top):
            if self._only is None:
                for path, mark in self._enter(self._top, top=True):
                    self._add(path, mark, [])
                return
            folder, name = os.path.split(self._only)
            self._listen(folder, top=True)
            self._known[folder] = {name: mark_of(os.lstat(self._only))}

    def _look(self, dirty: set[str], everything: bool) -> list[Change]:
        """Look at some paths, parents first, or at all of them."""
        if everything:
            dirty = self._everything()
        changes: list[Change] = []
        for path in sorted(dirty):
            if self._stopped:
                break
            try:
                self._look_at(path, everything, changes)
            except EnvironmentFailed as error:
                log.warning("cannot watch all of a tree", path=path, why=error.message)
            except Exception:
                log.exception("cannot look at a watched path", path=path)
        return changes

    def _everything(self) -> set[str]:
        """List what is known and what is there now."""
        paths = {self._only or self._top}
        for folder, entries in self._known.items():
            names = set(entries)
            if self._only is None:
                with contextlib.suppress(OSError):
                    names |= set(os.listdir(folder))  # noqa: PTH208
            paths |= {os.path.join(folder, name) for name in names}  # noqa: PTH118
        return paths

    def _look_at(self, path: str, only_if_differs: bool, changes: list[Change]) -> None:
        folder, name = os.path.split(path)
        if path == self._top and self._only is None:
            if not os.path.isdir(path):  # noqa: PTH112
                self._forget(path, changes)
            return
        if folder not in self._known:
            return  # It went away with its folder, and was told.
        old, new = self._known[folder].get(name), _mark_at(path)
        if old and (new is None or new.kind != old.kind or _is_another_folder(old, new)):
            self._forget(path, changes)
            old = None
        if new is None:
            return
        if old is None:
            self._add(path, new, changes)
        elif new.kind != "folder" and (not only_if_differs or old.differs(new)):
            # The kernel's word counts more than a mark: that may be too coarse to show it.
            self._known[folder][name] = new
            changes.append(Change("changed", path))

    def _add(self, path: str, mark: Mark, changes: list[Change]) -> None:
        """Note a new path, and if it is a folder all that is below it."""
        found = [(path, mark)]
        while found:
            path, mark = found.pop()
            if self._count >= MAX_ENTRIES:
                raise too_many(self._top)
            folder, name = os.path.split(path)
            self._known[folder][name] = mark
            self._count += 1
            changes.append(Change("added", path))
            if mark.kind == "folder":
                # What may not be read or is gone again is left out.
                with contextlib.suppress(OSError):
                    found += self._enter(path)

    def _enter(self, folder: str, *, top: bool = False) -> list[tuple[str, Mark]]:
        """Listen to a folder, then see what is in it: in this order nothing is missed."""
        if self._stopped:
            return []
        self._listen(folder, top=top)
        self._known[folder] = {}
        paths = [
            os.path.join(folder, name)  # noqa: PTH118
            for name in os.listdir(folder)  # noqa: PTH208
            if not is_temporary(name)
        ]
        return [(path, mark) for path in paths if (mark := _mark_at(path))]

    def _listen(self, folder: str, *, top: bool) -> None:
        number = self._inotify.add(folder, self, follow=top)
        self._folder_of[number] = folder
        self._number_of[folder] = number

    def _forget(self, path: str, changes: list[Change]) -> None:
        """Forget a path with all below it, and tell it, the deepest first."""
        found, told = [path], []
        while found:
            path = found.pop()
            told.append(Change("deleted", path))
            folder, name = os.path.split(path)
            if self._known.get(folder, {}).pop(name, None):
                self._count -= 1
            below = self._known.get(path, {})
            found += [os.path.join(path, name) for name in below]  # noqa: PTH118
            self._stop_listening(path)
        for change in told:
            self._known.pop(change.path, None)
        changes += reversed(told)

    def _stop_listening(self, folder: str) -> None:
        number = self._number_of.pop(folder, None)
        # A folder that was moved keeps its number, and may be known by its new path already.
        if number is not None and self._folder_of.get(number) == folder:
            del self._folder_of[number]
            self._inotify.remove(number, self)


def _mark_at(path: str) -> Mark | None:
    try:
        return mark_of(os.lstat(path))
    except OSError:
        return None


def _is_another_folder(old: Mark, new: Mark) -> bool:
    return old.kind == "folder" and old.inode != new.inode

"""Files through commands, for environments whose files only a process inside can reach.

It needs a POSIX shell and tools inside, with `stat -c` as GNU and busybox have it. Paths travel as
arguments and are never part of a script, so no name can be mistaken for code.
"""

from __future__ import annotations

import posixpath
import secrets

from agor.environments.base import (
    MAX_ENTRIES,
    MAX_FILE,
    EnvironmentPrimitive,
    FileInfo,
    FileKind,
    OnChanges,
    Watch,
    absolute,
)
from agor.environments.commands import Completed
from agor.environments.files_directly import no_such_file, too_large, too_many
from agor.environments.polling import PollingWatch
from agor.environments.snapshots import TEMPORARY, Mark, is_temporary, kind_of
from agor.errors import EnvironmentFailed

#: Seconds for one operation; long enough for the largest file over a slow line.
_PATIENCE = 300.0
#: Bytes of a list: so many entries with names of a usual length.
_MAX_LIST = 64 * 1024 * 1024

#: $1 the file, $2 how many bytes at most.
_READ = """
if [ -e "$1" ] && [ ! -f "$1" ] && [ ! -d "$1" ]; then echo "Not a regular file" >&2; exit 1; fi
exec head -c "$2" -- "$1"
"""

#: $1 the file, $2 its folder, $3 the temporary one, $4 the mode or nothing, $5 the size. The size
#: is checked because an input that was cut off looks like one that ended.
_WRITE = """
if [ -d "$1" ]; then echo "Is a directory" >&2; exit 1; fi
set -e
mkdir -p -- "$2"
mode=$4
if [ -z "$mode" ] && [ -f "$1" ] && [ ! -L "$1" ]; then mode=$(stat -c %a -- "$1"); fi
trap 'rm -f -- "$3"' EXIT
trap 'exit 1' HUP INT TERM
umask 077
cat > "$3"
[ "$(wc -c < "$3")" -eq "$5" ]
chmod "${mode:-644}" "$3"
mv -f -- "$3" "$1"
trap - EXIT
"""

#: $1 the path, $2 how deep, $3 whether it must be a folder. One record for each entry, ended by a
#: zero byte: kind, size, time, inode, path. Where find cannot print them, stat does, and tells the
#: kind as a mode and the time in whole seconds.
_LIST = r"""
start=$1 least=0
if [ -n "$3" ]; then
  ls -d -- "${1%/}/." >/dev/null || exit 1
  least=1
else
  ls -d -- "$1" >/dev/null || exit 1
fi
if [ -d "$1" ]; then start=${1%/}/; fi
if find / -maxdepth 0 -printf '' 2>/dev/null; then
  exec find "$start" -mindepth "$least" -maxdepth "$2" -printf '%y %s %T@ %i %p\0'
fi
exec find "$start" -mindepth "$least" -maxdepth "$2" -exec sh -c '
  for path do
    mark=$(stat -c "%f %s %Y %i" -- "$path") && printf "%s %s\0" "$mark" "$path"
  done' sh {} +
"""

_LETTERS: dict[bytes, FileKind] = {b"f": "file", b"d": "folder", b"l": "link"}


class FilesByExec(EnvironmentPrimitive):
    """The file operations of an environment, by means of its `exec`."""

    async def read_file(self, path: str) -> bytes:
        """Read it with `head`, one byte further than we may."""
        place = await self._place(path)
        done = await self._script(_READ, place, str(MAX_FILE + 1), max_output=MAX_FILE + 1)
        _check(done, "read", place)
        if len(done.stdout) > MAX_FILE:
            raise too_large(place)
        return done.stdout

    async def write_file(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Write it beside the place and move it there."""
        place = await self._place(path)
        folder = posixpath.dirname(place)
        temporary = posixpath.join(folder, f"{TEMPORARY}{secrets.token_hex(8)}")
        bits = "" if mode is None else f"{mode:o}"
        size = str(len(data))
        done = await self._script(_WRITE, place, folder, temporary, bits, size, given=data)
        _check(done, "write", place)

    async def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileInfo]:
        """List it with `find`."""
        place = await self._place(path)
        marks = await self._marks(place, depth=None if recursive else 1, folder=True)
        return [mark.at(found) for found, mark in sorted(marks.items())]

    async def watch(self, path: str, callback: OnChanges) -> Watch:
        """Look again and again: nothing inside can be relied on to tell us."""
        place = await self._place(path)
        watch = PollingWatch(place, lambda: self._marks(place, depth=None, folder=False), callback)
        await watch.start()
        return watch

    async def _place(self, path: str) -> str:
        return absolute((await self.get_base_paths()).workspace, path)

    async def _marks(self, place: str, *, depth: int | None, folder: bool) -> dict[str, Mark]:
        limit = "999999" if depth is None else str(depth)
        must = "folder" if folder else ""
        done = await self._script(_LIST, place, limit, must, max_output=_MAX_LIST)
        # Folders that may not be read make find end with 1, with all the others told.
        if done.exit_code != 1 or not done.stdout:
            _check(done, "list", place)
        marks = dict(_entry(record) for record in done.stdout.split(b"\0")[:-1])
        if len(marks) > MAX_ENTRIES:
            raise too_many(place)
        return {found: mark for found, mark in marks.items() if not is_temporary(found)}

    async def _script(
        self, script: str, *arguments: str, given: bytes = b"", max_output: int = 65536
    ) -> Completed:
        command = ["/bin/sh", "-c", script, "sh", *arguments]
        # The reasons are read, so they have to be in one language.
        return await self.run(
            command,
            given,
            env={"LC_ALL": "C"},
            cwd="/",
            timeout=_PATIENCE,
            max_output=max_output,
        )


def _entry(record: bytes) -> tuple[str, Mark]:
    kind, size, modified, inode, path = record.split(b" ", 4)
    known = _LETTERS.get(kind, "other") if len(kind) == 1 else kind_of(int(kind, 16))
    name = path.decode("utf-8", "surrogateescape")
    return name.rstrip("/") or "/", Mark(known, int(size), float(modified), int(inode))


def _check(done: Completed, doing: str, path: str) -> None:
    if done.exit_code == 0:
        return
    reason = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    if reason.endswith("No such file or directory"):
        raise no_such_file(path)
    why = reason or f"it ended with {done.exit_code}"
    raise EnvironmentFailed(f"cannot {doing} {path}: {why}")

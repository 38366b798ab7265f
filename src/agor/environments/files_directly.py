"""Files by plain calls, for an environment whose user we are ourselves. To be run in a thread."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from agor.environments.base import MAX_ENTRIES, MAX_FILE, FileInfo
from agor.environments.snapshots import TEMPORARY, is_temporary, mark_of
from agor.errors import EnvironmentFailed, NoSuchFile


def read_whole(path: str) -> bytes:
    """Read a regular file."""
    with explaining("read", path):
        # Not to wait: a named pipe without a writer would hold us for ever.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:  # noqa: PTH123 - it is a descriptor
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise EnvironmentFailed(f"cannot read {path}: Not a regular file")
            data = file.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise too_large(path)
    return data


def write_whole(path: str, data: bytes, mode: int | None) -> None:
    """Write a file beside the place and move it there."""
    target = Path(path)
    with explaining("write", path):
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "Is a directory")
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.parent / f"{TEMPORARY}{secrets.token_hex(8)}"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "wb") as file:  # noqa: PTH123 - it is a descriptor
                file.write(data)
                # Before it has its name, so that it is never wider than asked.
                os.fchmod(fd, _mode_now(target) if mode is None else mode)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def list_folder(path: str, *, recursive: bool) -> list[FileInfo]:
    """List a folder; what may not be read or goes away meanwhile is left out."""
    found: list[FileInfo] = []
    with explaining("list", path):
        folders = _take(_entries(path), found)
    while recursive and folders:
        with contextlib.suppress(OSError):
            folders += _take(_entries(folders.pop()), found)
        if len(found) > MAX_ENTRIES:
            raise too_many(path)
    return sorted(found, key=lambda info: info.path)


@contextlib.contextmanager
def explaining(doing: str, path: str) -> Iterator[None]:
    """Turn the system's errors into ours, which name the path."""
    try:
        yield
    except FileNotFoundError as error:
        raise no_such_file(path) from error
    except OSError as error:
        raise EnvironmentFailed(f"cannot {doing} {path}: {error.strerror or error}") from error


def no_such_file(path: str) -> NoSuchFile:
    """Say that nothing is there."""
    return NoSuchFile(f"there is no file {path}")


def too_large(path: str) -> EnvironmentFailed:
    """Say that a file does not fit into an answer."""
    return EnvironmentFailed(
        f"{path} has more than {MAX_FILE} bytes",
        hint="Read it in parts, with a command whose output you take as it comes.",
    )


def too_many(path: str) -> EnvironmentFailed:
    """Say that a tree has more files than we look after."""
    return EnvironmentFailed(
        f"{path} has more than {MAX_ENTRIES} files", hint="Choose a smaller folder."
    )


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from entries


def _take(entries: Iterator[os.DirEntry[str]], found: list[FileInfo]) -> list[str]:
    """Note the entries of one folder; return the folders among them."""
    folders = []
    for entry in entries:
        if is_temporary(entry.name):
            continue
        with contextlib.suppress(FileNotFoundError):
            info = mark_of(entry.stat(follow_symlinks=False)).at(entry.path)
            found.append(info)
            if info.kind == "folder":
                folders.append(info.path)
    return folders


def _mode_now(target: Path) -> int:
    """Give the mode that a file has, or that a new one gets."""
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return 0o644
    return stat.S_IMODE(mode) if stat.S_ISREG(mode) else 0o644

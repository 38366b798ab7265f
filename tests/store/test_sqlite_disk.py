"""SQLite on a disk that is full, or fails: for real, by a small file system or a limit on files."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agor.daemon.store import connect
from agor.daemon.store.base import Store
from agor.daemon.store.sqlite.store import SqliteStore
from agor.errors import StoreUnavailable
from tests.contract.waiting import soon, until
from tests.store.examples import pid_of_writer, sequences, some_events

MEBIBYTE = 1024 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system can only be mounted by root, outside of most containers")
    yield folder
    subprocess.run(["umount", str(folder)], check=True, timeout=60)


async def fill(store: Store) -> int:
    """Commit until that fails; tell the last sequence that was acknowledged."""
    sequence = 0
    with contextlib.suppress(StoreUnavailable):
        while True:
            await soon(store.commit(some_events(1, sequence + 1, sequence + 100, b"x" * 1000)))
            sequence += 100
    return sequence


async def test_a_full_disk_refuses_and_loses_nothing_and_goes_on_when_there_is_room(
    small_disk: Path,
):
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(10 * MEBIBYTE))
    url = f"sqlite:///{small_disk}/agor.db"
    store = connect(url)
    await store.open()
    last = await fill(store)
    assert last > 0
    assert not store.available
    with pytest.raises(StoreUnavailable, match="full") as refused:
        await store.commit(some_events(1, last + 1, last + 100, b"x" * 1000))
    assert "space" in (refused.value.hint or "")
    assert await sequences(store, 1) == list(range(1, last + 1))

    ballast.unlink()
    # It notices by itself, and the next commit works.
    await until(lambda: store.available)
    await soon(store.commit(some_events(1, last + 1, last + 100, b"x" * 1000)))
    assert await sequences(store, 1) == list(range(1, last + 101))
    await store.close()

    await store.open()
    assert await sequences(store, 1) == list(range(1, last + 101))
    await store.close()


async def test_a_disk_that_is_full_at_the_start_is_named(small_disk: Path):
    store = connect(f"sqlite:///{small_disk}/agor.db")
    ballast = small_disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    with pytest.raises(StoreUnavailable) as refused:
        await store.open()
    assert "space" in (refused.value.hint or "")
    ballast.unlink()
    await store.open()
    await store.commit(some_events(1, 1, 1))
    await store.close()


async def test_an_error_of_the_disk_refuses_and_loses_nothing_and_goes_on_after_it(tmp_path: Path):
    """The process that writes may not make a file any longer, for a while."""
    store = SqliteStore(tmp_path / "agor.db")
    await store.open()
    writer = pid_of_writer(store)
    _, hard = resource.prlimit(writer, resource.RLIMIT_FSIZE)
    resource.prlimit(writer, resource.RLIMIT_FSIZE, (2_000_000, hard))
    last = await fill(store)
    assert last
    with pytest.raises(StoreUnavailable, match="SQLITE_IOERR"):
        await soon(store.commit(some_events(1, last + 1, last + 100, b"x" * 1000)))
    assert await sequences(store, 1) == list(range(1, last + 1))
    resource.prlimit(writer, resource.RLIMIT_FSIZE, (hard, hard))
    await soon(store.commit(some_events(1, last + 1, last + 100, b"x" * 1000)))
    assert pid_of_writer(store) == writer
    assert await sequences(store, 1) == list(range(1, last + 101))
    await store.close()
    await store.open()
    assert await sequences(store, 1) == list(range(1, last + 101))
    await store.close()


NO_SYNC = """
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
static int fails(void) { return access(getenv("NO_SYNC"), F_OK) == 0; }
int fdatasync(int fd) { (void)fd; if (fails()) { errno = EIO; return -1; } return 0; }
int fsync(int fd) { return fdatasync(fd); }
"""

#: Commits once, then makes the signs that the library looks for, commits again, and dies.
CRASHES = """
import asyncio, os, signal, sys
from pathlib import Path
from agor.daemon.store import connect
from agor.daemon.store.sqlite import process
from agor.errors import StoreUnavailable
from tests.store.examples import pid_of_writer, some_events

signs = sys.argv[2:]
process._ALLOWED += ("LD_PRELOAD", *signs)

async def main() -> None:
    store = connect(sys.argv[1])
    await store.open()
    await store.commit(some_events(1, 1, 10))
    for sign in signs:
        Path(os.environ[sign]).touch()
    try:
        await store.commit(some_events(1, 11, 20))
    except StoreUnavailable as error:
        print(error, flush=True)
    os.kill(pid_of_writer(store), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def crash_with(library: str, folder: Path, *signs: str) -> subprocess.CompletedProcess[str]:
    """Crash with a writer that has these functions instead of the system's own.

    Its signs are files, named by variables of the environment.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here to make a sync fail with")
    source, compiled = folder / "library.c", folder / "library.so"
    source.write_text(library)
    make = [compiler, "-shared", "-fPIC", "-o", str(compiled), str(source)]
    subprocess.run(make, check=True, timeout=60)
    return subprocess.run(
        [sys.executable, "-c", CRASHES, f"sqlite:///{folder}/agor.db", *signs],
        env=os.environ
        | {"LD_PRELOAD": str(compiled)}
        | {sign: str(folder / sign) for sign in signs},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def test_what_could_not_be_synced_is_not_found_after_a_crash(tmp_path: Path):
    """Its caller was told that nothing was stored, though all of it had been written."""
    done = crash_with(NO_SYNC, tmp_path, "NO_SYNC")
    assert "FSYNC" in done.stdout, done.stderr
    store = connect(f"sqlite:///{tmp_path}/agor.db")
    await store.open()
    assert await sequences(store, 1) == list(range(1, 11))
    await store.close()


DIES_IN_SYNC = """
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
int fdatasync(int fd) {
    (void)fd;
    if (unlink(getenv("DEATH_1")) == 0 || unlink(getenv("DEATH_2")) == 0) kill(getpid(), SIGKILL);
    return 0;
}
int fsync(int fd) { return fdatasync(fd); }
"""


async def test_what_writers_died_over_in_their_syncs_is_not_found_after_a_crash(tmp_path: Path):
    """All of it was in the log when the second one died, and its caller was told that it is not."""
    done = crash_with(DIES_IN_SYNC, tmp_path, "DEATH_1", "DEATH_2")
    assert "died over this" in done.stdout, done.stderr
    store = connect(f"sqlite:///{tmp_path}/agor.db")
    await store.open()
    assert await sequences(store, 1) == list(range(1, 11))
    await store.close()

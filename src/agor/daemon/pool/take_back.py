"""After a restart: executors that run are taken back, those nobody knows are ended, the rest is
cleaned up. Nothing of an earlier daemon is left that is not ours now.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
from dataclasses import dataclass

import structlog

from agor.daemon.pool.ending import Ending
from agor.daemon.pool.parts import Parts
from agor.daemon.pool.pooled import PooledExecutor
from agor.daemon.pool.records import ExecutorRecord
from agor.daemon.pool.settings import Claim
from agor.environments.identity import UnixIdentity
from agor.errors import AgorError
from agor.linux import is_alive
from agor.protocol.launching import Family
from agor.protocol.methods import TaskInfo
from agor.protocol.terminals import TerminalInfo

log = structlog.get_logger("agor.pool")


@dataclass(frozen=True, slots=True)
class TakenBack:
    """An executor that was running all the while."""

    pooled: PooledExecutor
    #: What it has under way, or has ended and not been acknowledged.
    tasks: list[TaskInfo]
    #: Its terminals, also those whose shell has ended meanwhile.
    terminals: list[TerminalInfo]

    @property
    def has_work(self) -> bool:
        """Whether it is in use: by tasks, or by a terminal whose shell runs."""
        return bool(self.tasks) or any(each.exit_code is None for each in self.terminals)


async def take_back(parts: Parts) -> tuple[list[TakenBack], list[Ending]]:
    """Go through all that is there; tells who runs, and how those ended that do not."""
    records = {record.executor_id: record for record in await parts.records.load()}
    newest: dict[str, ExecutorRecord] = {}
    for record in sorted(records.values(), key=lambda each: each.started_at):
        newest[record.seat] = record
    found = await asyncio.gather(
        *(
            _take_back(record, parts, wanted=newest[record.seat] is record)
            for record in records.values()
        )
    )
    # Folders first, then cgroups, which may be all that is left.
    unknown = [name for name in parts.folders.known() if name not in records]
    await asyncio.gather(*(_end_unknown(name, parts) for name in unknown))
    for name in parts.backend.leftovers():
        if name not in records and (cgroup := parts.backend.open(name)) is not None:
            await cgroup.kill()
            await cgroup.remove()
    for path in parts.folders.stray_sockets():
        path.unlink(missing_ok=True)
    taken = [one for one in found if isinstance(one, TakenBack)]
    return taken, [one for one in found if isinstance(one, Ending)]


async def _take_back(record: ExecutorRecord, parts: Parts, *, wanted: bool) -> TakenBack | Ending:
    identity = _identity(record.unix_user, record.family)
    claim = Claim(
        session_id=record.session_id,
        user_id=record.user_id,
        unix_username=identity.name,
        terminal_id=record.terminal_id,
    )
    pooled = PooledExecutor(record.executor_id, claim, identity, parts)
    if not wanted:
        pooled.watch_only(record.family)
        return await pooled.stop("there is a newer executor in its place")
    try:
        await pooled.adopt(record.family, record.started_at)
    except (AgorError, OSError) as error:
        return await pooled.stop(f"it could not be taken back ({error})")
    info = pooled.environment.info
    assert info is not None
    log.info("executor_taken_back", executor=record.executor_id, tasks=len(info.tasks))
    return TakenBack(pooled, info.tasks, info.terminals)


async def _end_unknown(executor_id: str, parts: Parts) -> None:
    """End an executor that has a folder and no record."""
    folder = parts.folders.executor(executor_id)
    family = folder.read_family()
    identity = UnixIdentity.current() if family is None else _identity(None, family)
    claim = Claim(session_id=f"(unknown: {executor_id})", user_id="(unknown)")
    pooled = PooledExecutor(executor_id, claim, identity, parts)
    if family is not None:
        pooled.watch_only(family)
    await pooled.stop("nobody knows it")


def _identity(name: str | None, family: Family) -> UnixIdentity:
    """Tell whose processes these are; the user may have been removed meanwhile."""
    with contextlib.suppress(OSError, KeyError):
        uid = os.stat(f"/proc/{family.keeper.pid}").st_uid  # noqa: PTH116
        # Looked at afterwards: the number may be somebody else's by now.
        if is_alive(family.keeper):
            name = pwd.getpwuid(uid).pw_name
    if name == UnixIdentity.current().name:
        return UnixIdentity.current()
    with contextlib.suppress(AgorError):
        if name is not None:
            return UnixIdentity.of(name)
    return UnixIdentity.current()

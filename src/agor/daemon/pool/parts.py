"""What every executor of a pool shares."""

from __future__ import annotations

from dataclasses import dataclass

from agor.daemon.pool.folders import Folders
from agor.daemon.pool.launchers import Launchers
from agor.daemon.pool.limits import Backend
from agor.daemon.pool.records import Records
from agor.daemon.pool.settings import PoolSettings
from agor.execution import Host


@dataclass(frozen=True, slots=True)
class Parts:
    """The pool's surroundings."""

    settings: PoolSettings
    host: Host
    records: Records
    folders: Folders
    launchers: Launchers
    backend: Backend
    daemon_id: str

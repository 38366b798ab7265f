"""What the pool is told: the values of `execution.*`, and who asks for an executor."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from agor.errors import BadInput
from agor.protocol.limits import ResourceLimits

#: What a template may name, and that it must.
_PLACES = ("runtime", "id")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """How the pool behaves. Times are in seconds."""

    #: A folder that only the daemon can enter, for sockets, logs and reports.
    runtime: Path
    run_as_unix_user: bool = False
    executor_unix_user: str | None = None
    max_executors: int = 10
    max_waiting: int = 100
    spare_executors: int = 1
    idle_timeout: float = 60.0
    orphan_timeout: float = 3600.0
    socket_path_template: str = "{runtime}/executors/{id}.sock"
    connection_timeout: float = 5.0
    stop_timeout: float = 5.0
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    #: Between two looks at an executor, and how long it may take to answer one.
    ping_interval: float = 10.0
    ping_timeout: float = 10.0
    max_line: int = 16 * 1024 * 1024
    outbox_bytes: int = 16 * 1024 * 1024
    #: Where the agents' programs are that `agor agent install` has put there.
    agents_folder: Path | None = None

    def __post_init__(self) -> None:
        for name in ("max_executors", "max_line", "outbox_bytes"):
            if getattr(self, name) < 1:
                raise BadInput(f"execution.{name} must be at least 1")
        for name in ("max_waiting", "spare_executors"):
            if getattr(self, name) < 0:
                raise BadInput(f"execution.{name} cannot be negative")
        self.socket_path("0")

    def socket_path(self, executor_id: str) -> Path:
        """Fill the template in."""
        try:
            path = self.socket_path_template.format(runtime=self.runtime, id=executor_id)
        except (KeyError, IndexError, ValueError) as error:
            raise BadInput(
                f"execution.socket_path_template: {self.socket_path_template!r} is no template",
                hint=f"It may name {{{'}, {'.join(_PLACES)}}}.",
            ) from error
        if "{id}" not in self.socket_path_template:
            raise BadInput(
                "execution.socket_path_template has no {id}: every executor needs its own socket"
            )
        return Path(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who wants an executor, and for what."""

    session_id: str
    user_id: str
    #: The Unix user that this person is mapped to, if any.
    unix_username: str | None = None
    #: The terminal that it is for; none if it is for the session's tasks.
    terminal_id: str | None = None

    @property
    def seat(self) -> str:
        """Name what has the executor to itself: a terminal, or else a session with its tasks."""
        return self.terminal_id or self.session_id


#: The claim to an executor that was started ahead: there is none yet.
NOBODY = Claim(session_id="", user_id="")

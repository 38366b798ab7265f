"""Every setting: its type, its default, what is allowed, and its line of documentation.

The sections below are the one table. Reading, `agor config` and the reference page derive from it,
and a new setting is one new line here (and one in docs/reference/configuration.md).
"""

# ruff: noqa: RUF009 - `_key` and `_section` are `dataclasses.field`
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from agor.config.database_url import DatabaseUrl
from agor.config.kinds import (
    AgentName,
    Choice,
    Command,
    FilePath,
    Flag,
    HostNames,
    Kind,
    ListenAddress,
    Number,
    Optional,
    Size,
    SocketTemplate,
    UserName,
    Whole,
)
from agor.logs import LogFormat, LogLevel
from agor.protocol.limits import MEBIBYTE, ResourceLimits

_YEAR = 365 * 24 * 3600 * 1000
#: A time that something may take, and one that may also be nothing at all.
_TIME = Whole(1, _YEAR, "milliseconds")
_TIME_OR_AT_ONCE = Whole(0, _YEAR, "milliseconds")


def _key(default: Any, kind: Kind, meaning: str) -> Any:
    return field(default=default, metadata={"kind": kind, "meaning": meaning})


def _section(form: type) -> Any:
    return field(default_factory=form, metadata={"section": form})


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsConfig:
    """`execution.limits`: what one executor, with all it starts, may use."""

    memory: int | None = _key(
        None,
        Optional(Size(16 * MEBIBYTE, 2**60)),
        "memory of an executor with all it starts, swap included",
    )
    cpus: float | None = _key(
        None, Optional(Number(0.01, 10_000)), "processors' worth of time; 0.5 is half of one"
    )
    processes: int | None = _key(None, Optional(Whole(1, 2**22)), "processes and threads together")
    open_files: int | None = _key(
        None, Optional(Whole(16, 2**30)), "open files of each of its processes"
    )
    wall_time: float | None = _key(
        None, Optional(Number(1, 2**31, "seconds")), "seconds that an executor may live"
    )

    @property
    def resources(self) -> ResourceLimits:
        """The same, as the pool takes them."""
        return ResourceLimits(**{each.name: getattr(self, each.name) for each in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionConfig:
    """`execution`: how agents are run."""

    use_executor: bool = _key(
        True, Flag(), "run agents in processes of their own; false: inside the daemon, to debug"
    )
    run_as_unix_user: bool = _key(
        False, Flag(), "run each person's executors as the Unix user they are mapped to"
    )
    executor_unix_user: str | None = _key(
        None, Optional(UserName()), "the Unix user for people who are mapped to none"
    )
    max_executors: int = _key(
        10, Whole(1, 10_000), "executors at once, one for each open terminal; others wait"
    )
    max_waiting: int = _key(
        100, Whole(0, 1_000_000), "how many may wait for an executor; more are refused"
    )
    spare_executors: int = _key(
        1,
        Whole(0, 100),
        "executors started ahead, for each Unix user; more if more are needed at once",
    )
    idle_timeout_ms: int = _key(
        60_000, _TIME_OR_AT_ONCE, "an executor without work ends after this time"
    )
    orphan_timeout_ms: int = _key(
        3_600_000, _TIME, "an executor without a daemon ends after this time, once its work is done"
    )
    socket_path_template: str = _key(
        "{runtime}/executors/{id}.sock",
        SocketTemplate(),
        "where executors are reached; in a folder that only the daemon can enter",
    )
    connection_timeout_ms: int = _key(5_000, _TIME, "time for the first answer of a new executor")
    stop_timeout_ms: int = _key(
        5_000, _TIME_OR_AT_ONCE, "time for an executor to end by itself, before it is killed"
    )
    task_timeout_ms: int | None = _key(None, Optional(_TIME), "time for one prompt")
    session_token_expiration_ms: int = _key(
        86_400_000, _TIME, "time that an executor's token is good for"
    )
    session_token_max_uses: int | None = _key(
        None, Optional(Whole(1, 2**31)), "times that a token may be used"
    )
    permission_timeout_ms: int = _key(
        600_000, _TIME, "time for an answer to a permission request; then it is denied"
    )
    terminal_timeout_ms: int = _key(
        86_400_000, _TIME, "a terminal that nobody is attached to is closed after this time"
    )
    ping_interval_ms: int = _key(10_000, _TIME, "time between two looks at an executor")
    ping_timeout_ms: int = _key(10_000, _TIME, "time for an executor's answer to such a look")
    max_line_bytes: int = _key(
        16 * MEBIBYTE, Whole(64 * 1024, 2**30), "longest message to or from an executor"
    )
    outbox_bytes: int = _key(
        16 * MEBIBYTE,
        Whole(64 * 1024, 2**30),
        "events that an executor holds until they are stored; then its agent waits",
    )
    environment: str = _key(
        "local", Choice("local"), "where executors run, unless a session says otherwise"
    )
    agents_folder: str = _key(
        "{home}/agents",
        FilePath(),
        "where agents are installed; Unix users who run them must be able to read it",
    )
    limits: LimitsConfig = _section(LimitsConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonConfig:
    """`daemon`: the process that serves the API."""

    host: str = _key("127.0.0.1", ListenAddress(), "the address to listen on")
    port: int = _key(
        0, Whole(0, 65_535), "the port to listen on; 0: any free one, the last one if possible"
    )
    allowed_hosts: tuple[str, ...] = _key(
        (), HostNames(), "names that it is reached by, beside localhost and its own address"
    )
    https_proxy: bool = _key(
        False, Flag(), "a proxy in front of it speaks HTTPS, and nobody comes in but through that"
    )
    drain_on_stop: bool = _key(
        False, Flag(), "end the executors with the daemon; false: they go on and are taken back"
    )
    stop_timeout_ms: int = _key(10_000, _TIME, "time for the daemon to end in order")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedConfig:
    """`feed`: what clients follow."""

    stall_timeout_ms: int = _key(
        30_000, _TIME, "a client that takes nothing for so long is cut off"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseConfig:
    """`database`: where everything is kept."""

    url: str = _key(
        "sqlite:///{home}/agor.db", DatabaseUrl(), "where everything is kept: a file, or PostgreSQL"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialsConfig:
    """`credentials`: where the master key is that people's API keys are sealed with."""

    master_key: str = _key(
        "file",
        Choice("file", "environment", "command"),
        "where the master key is: a file, AGOR_MASTER_KEY, or what a command prints",
    )
    key_file: str = _key(
        "{home}/master.key", FilePath(), "the file; made at first need, readable by its owner only"
    )
    key_command: str | None = _key(
        None, Optional(Command()), "the command; it is run without a shell"
    )
    key_timeout_ms: int = _key(10_000, _TIME, "time for the command to end")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """`log`: what the daemon writes to its log."""

    level: LogLevel = _key(
        "info", Choice("debug", "info", "warning", "error"), "how much is logged"
    )
    format: LogFormat = _key(
        "console", Choice("console", "json"), "for people (console) or for programs (json)"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """`run`: what `agor run` does unless it is told otherwise."""

    agent: str = _key("claude-code", AgentName(), "the agent that `agor run` asks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings of one run. It never changes."""

    execution: ExecutionConfig = _section(ExecutionConfig)
    daemon: DaemonConfig = _section(DaemonConfig)
    feed: FeedConfig = _section(FeedConfig)
    database: DatabaseConfig = _section(DatabaseConfig)
    credentials: CredentialsConfig = _section(CredentialsConfig)
    log: LogConfig = _section(LogConfig)
    run: RunConfig = _section(RunConfig)


@dataclass(frozen=True, slots=True)
class Key:
    """One setting."""

    name: str
    kind: Kind
    default: Any
    meaning: str

    @property
    def variable(self) -> str:
        """The environment variable that overrides it."""
        return f"AGOR_{self.name.upper().replace('.', '__')}"

    @property
    def path(self) -> list[str]:
        """Its sections, and its name in the last one."""
        return self.name.split(".")


def _keys(form: type, prefix: str) -> Iterator[Key]:
    for each in fields(form):
        name = f"{prefix}{each.name}"
        if section := each.metadata.get("section"):
            yield from _keys(section, f"{name}.")
        else:
            yield Key(name, each.metadata["kind"], each.default, each.metadata["meaning"])


#: Name → setting, in the order of the reference.
KEYS: dict[str, Key] = {key.name: key for key in _keys(Config, "")}
#: The names that have settings below them.
SECTIONS = {
    ".".join(key.path[:depth]) for key in KEYS.values() for depth in range(1, len(key.path))
}


def build(values: Mapping[str, Any]) -> Config:
    """Make a configuration of checked values by name; what is missing has its default."""
    made: Config = _build(Config, "", values)
    return made


def _build(form: type, prefix: str, values: Mapping[str, Any]) -> Any:
    members = {}
    for each in fields(form):
        name = f"{prefix}{each.name}"
        if section := each.metadata.get("section"):
            members[each.name] = _build(section, f"{name}.", values)
        elif name in values:
            members[each.name] = values[name]
    return form(**members)

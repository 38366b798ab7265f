"""The configuration: `$AGOR_HOME/config.yaml` and AGOR_… variables → one frozen `Config`."""

from __future__ import annotations

from agor.config.keys import (
    Config,
    CredentialsConfig,
    DaemonConfig,
    DatabaseConfig,
    ExecutionConfig,
    FeedConfig,
    LimitsConfig,
    LogConfig,
)
from agor.config.reading import load

__all__ = [
    "Config",
    "CredentialsConfig",
    "DaemonConfig",
    "DatabaseConfig",
    "ExecutionConfig",
    "FeedConfig",
    "LimitsConfig",
    "LogConfig",
    "load",
]

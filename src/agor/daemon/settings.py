"""What the configuration means to the pool and to the interface."""

from __future__ import annotations

from agor.config import Config
from agor.daemon.api.settings import ApiSettings
from agor.daemon.pool.settings import PoolSettings
from agor.home import Home


def pool_settings(config: Config, home: Home) -> PoolSettings:
    """Tell the pool what the configuration says."""
    execution = config.execution
    return PoolSettings(
        runtime=home.runtime,
        run_as_unix_user=execution.run_as_unix_user,
        executor_unix_user=execution.executor_unix_user,
        max_executors=execution.max_executors,
        max_waiting=execution.max_waiting,
        spare_executors=execution.spare_executors,
        idle_timeout=execution.idle_timeout_ms / 1000,
        orphan_timeout=execution.orphan_timeout_ms / 1000,
        socket_path_template=execution.socket_path_template,
        connection_timeout=execution.connection_timeout_ms / 1000,
        stop_timeout=execution.stop_timeout_ms / 1000,
        limits=execution.limits.resources,
        ping_interval=execution.ping_interval_ms / 1000,
        ping_timeout=execution.ping_timeout_ms / 1000,
        max_line=execution.max_line_bytes,
        outbox_bytes=execution.outbox_bytes,
        agents_folder=home.path(execution.agents_folder),
    )


def api_settings(config: Config, host: str) -> ApiSettings:
    """Tell the interface what the configuration says."""
    return ApiSettings(
        host=host,
        allowed_hosts=config.daemon.allowed_hosts,
        https_proxy=config.daemon.https_proxy,
        stall_timeout=config.feed.stall_timeout_ms / 1000,
    )

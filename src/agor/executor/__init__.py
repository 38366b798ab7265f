"""The process inside the environment: serves the daemon, runs agents, loses nothing.

`main` is the command, `server` answers the wire, `prompts` runs tasks, `delivery` brings their
events to the daemon, and `outbox` keeps them until the daemon has them safe.
"""

import sys


def _import_structlog_alone() -> None:
    """Import structlog without what it only takes along where it is installed.

    We never print its coloured tracebacks. They would double the time in which this process comes
    up, and every fork of a launcher would have five megabytes more to go through.
    """
    company = {"rich", "better_exceptions", "greenlet"} - sys.modules.keys()
    for name in company:
        sys.modules[name] = None  # type: ignore[assignment]  # this is how an import is refused
    try:
        import structlog  # noqa: F401
    finally:
        for name in company:
            del sys.modules[name]


if "structlog" not in sys.modules:
    _import_structlog_alone()

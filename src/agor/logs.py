"""Logs: structured, on standard error, the same in every process.

Standard output belongs to the wire or to the command's own result; nothing is logged there.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
from typing import TYPE_CHECKING, Literal, TextIO, cast

if TYPE_CHECKING:
    import structlog

LogFormat = Literal["console", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]


class _Stderr:
    """Standard error, as far as it takes anything.

    A log that is full, closed, or piped to somebody who does not read must neither stop the
    process nor hold it up. What cannot be written now is lost.
    """

    def write(self, text: str) -> int:
        """Write without raising and without waiting."""
        with contextlib.suppress(OSError):
            poll = select.poll()
            poll.register(2, select.POLLOUT)
            if poll.poll(0):
                os.write(2, text.encode(errors="replace"))
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""


def configure(level: LogLevel, form: LogFormat) -> None:
    """Set up logging for this process."""
    # Imported late: the settings know of levels and formats, and are read by who logs nothing.
    import structlog

    renderer: structlog.types.Processor
    if form == "json":
        renderer = structlog.processors.JSONRenderer()
    else:
        # Plain tracebacks: the richer ones print local variables, and those may be secrets.
        renderer = structlog.dev.ConsoleRenderer(
            colors=os.isatty(2), exception_formatter=structlog.dev.plain_traceback
        )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *((structlog.processors.format_exc_info,) if form == "json" else ()),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", _Stderr())),
        cache_logger_on_first_use=True,
    )

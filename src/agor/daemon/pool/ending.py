"""How an executor ended, for people and for the record. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from agor.errors import ExecutorFailed
from agor.protocol.launching import ExitReport

#: Survivors that could not be counted.
UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of one executor."""

    executor_id: str
    session_id: str
    started: bool
    #: Why we ended it; none if it ended by itself.
    reason: str | None
    exit_code: int | None
    signal: int | None
    #: The kernel's reason, if it had one.
    explanation: str | None
    stderr_tail: str
    #: Processes it had left behind, which were ended too.
    left_behind: int
    #: Those that could not be ended. Anything but zero is a fault that somebody must look at.
    survivors: int

    @property
    def in_words(self) -> str:
        """Say it in a sentence."""
        if self.explanation is not None:
            how = self.explanation
        elif self.signal is not None:
            how = f"killed by {signal_name(self.signal)}"
        elif self.exit_code is not None:
            how = f"ended with exit code {self.exit_code}"
        elif self.started:
            how = "its keeper was killed, and it with it"
        else:
            how = "no process was started"
        return how if self.reason is None else f"{self.reason}: {how}"

    def error(self) -> ExecutorFailed:
        """Make an error of it, for whoever still wanted something."""
        last = self.stderr_tail.strip().splitlines()[-1:]
        words = f"; its last words: {last[0][-300:]}" if last else ""
        return ExecutorFailed(f"executor {self.executor_id} is gone: {self.in_words}{words}")


def ending(
    executor_id: str,
    session_id: str,
    report: ExitReport | None,
    *,
    started: bool,
    reason: str | None,
    explanation: str | None,
    stderr_tail: str,
    survivors: int,
) -> Ending:
    """Put together what the keeper said, if it could, and what we saw."""
    return Ending(
        executor_id=executor_id,
        session_id=session_id,
        started=started,
        reason=reason,
        exit_code=report.exit_code if report else None,
        signal=report.signal if report else None,
        explanation=explanation,
        stderr_tail=stderr_tail,
        left_behind=report.left_behind if report else 0,
        survivors=survivors,
    )


def signal_name(number: int) -> str:
    """Call a signal by its name, if it has one."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

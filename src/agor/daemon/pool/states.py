"""The life of an executor in the pool, as a table. Pure.

starting ──ready──► idle ◄──acquired/released──► busy
    │                 ▲ given
    └──ready ahead─► spare

stop (from anywhere) ──► stopping        died (from anywhere) ──► ended
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where an executor is in its life."""

    STARTING = "starting"
    #: Started for nobody yet, or not quite somebody's.
    SPARE = "spare"
    IDLE = "idle"
    BUSY = "busy"
    HUNG = "hung"
    STOPPING = "stopping"
    ENDED = "ended"


class Happening(StrEnum):
    """What can happen to it."""

    READY = "ready"
    READY_AHEAD = "ready ahead"
    GIVEN = "given"
    ACQUIRED = "acquired"
    RELEASED = "released"
    SILENT = "silent"
    STOP = "stop"
    DIED = "died"


_S, _H = State, Happening

#: What is not listed cannot happen.
TABLE: dict[tuple[State, Happening], State] = {
    (_S.STARTING, _H.READY): _S.IDLE,
    (_S.STARTING, _H.READY_AHEAD): _S.SPARE,
    (_S.SPARE, _H.GIVEN): _S.IDLE,
    (_S.IDLE, _H.ACQUIRED): _S.BUSY,
    (_S.BUSY, _H.RELEASED): _S.IDLE,
    # Alive and not answering: it is replaced.
    (_S.SPARE, _H.SILENT): _S.HUNG,
    (_S.IDLE, _H.SILENT): _S.HUNG,
    (_S.BUSY, _H.SILENT): _S.HUNG,
    (_S.STARTING, _H.STOP): _S.STOPPING,
    (_S.SPARE, _H.STOP): _S.STOPPING,
    (_S.IDLE, _H.STOP): _S.STOPPING,
    (_S.BUSY, _H.STOP): _S.STOPPING,
    (_S.HUNG, _H.STOP): _S.STOPPING,
    (_S.HUNG, _H.RELEASED): _S.HUNG,
    (_S.STOPPING, _H.RELEASED): _S.STOPPING,
    (_S.STOPPING, _H.STOP): _S.STOPPING,
    (_S.STOPPING, _H.SILENT): _S.STOPPING,
    **{(state, _H.DIED): _S.ENDED for state in State},
    (_S.ENDED, _H.RELEASED): _S.ENDED,
    (_S.ENDED, _H.STOP): _S.ENDED,
}

#: Those that are somebody's and can work.
WARM = frozenset({State.IDLE, State.BUSY})
#: Those that must be reachable and answer.
UP = WARM | {State.SPARE}


def after(state: State, happening: Happening) -> State:
    """Tell the next state; what cannot happen is a bug of ours and says so."""
    try:
        return TABLE[state, happening]
    except KeyError:
        raise AssertionError(f"{happening} cannot happen to an executor that is {state}") from None

"""The answer to an ACP agent that asks whether a tool may run. Pure.

The options have ids of each agent's own, so they are chosen by their kind, and always for this
once: what is allowed for longer is a rule of the daemon's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agor.agents.acp.calls import HARMLESS, Call

if TYPE_CHECKING:
    from acp.schema import PermissionOption, RequestPermissionResponse

PLANNING = "plan mode: nothing is changed"


def changes_nothing(call: Call) -> bool:
    """Tell whether a call may run while the agent only plans."""
    return call.kind in HARMLESS


def answer(options: Sequence[PermissionOption], *, approved: bool) -> RequestPermissionResponse:
    """Choose the option that says yes or no, once; without one, the question is called off."""
    from acp.schema import AllowedOutcome, RequestPermissionResponse

    kinds = ("allow_once",) if approved else ("reject_once", "reject_always")
    for kind in kinds:
        for option in options:
            if option.kind == kind:
                chosen = AllowedOutcome(outcome="selected", option_id=option.option_id)
                return RequestPermissionResponse(outcome=chosen)
    return called_off()


def called_off() -> RequestPermissionResponse:
    """Say that nobody answers, because the turn is over."""
    from acp.schema import DeniedOutcome, RequestPermissionResponse

    return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))

"""How the daemon is: for whoever watches it, in four degrees of detail."""

from __future__ import annotations

from agor.daemon.api.forms import Liveness, Readiness
from agor.daemon.api.route import Reply, Request
from agor.protocol.api import Health


async def live(request: Request[None]) -> Liveness:  # noqa: ARG001 - every handler is given one
    """Answer at all."""
    return Liveness(status="ok")


async def ready(request: Request[None]) -> Readiness | Reply:
    """Tell whether work can be taken. Without a token, so only the names of what fails."""
    health = request.services.health()
    failing = [check.name for check in health.checks if not check.ok]
    if health.status == "ok":
        return Readiness(status="ready", failing=failing)
    return Reply(503, Readiness(status=health.status, failing=failing))


async def health(request: Request[None]) -> Health:
    """Tell what was looked at and what was found."""
    return request.services.health()


async def metrics(request: Request[None]) -> bytes:
    """Give the figures, as Prometheus reads them."""
    return request.services.metrics.render()

"""The routes of the daemon itself, and of its audit log."""

from __future__ import annotations

from prometheus_client import CONTENT_TYPE_LATEST

from agor.daemon.api import (
    audit,
    documents,
    executors,
    health,
    page,
)
from agor.daemon.api.forms import (
    AuditQuery,
    Liveness,
    Readiness,
    VerificationQuery,
)
from agor.daemon.api.route import Route
from agor.errors import (
    StoreUnavailable,
    Unprocessable,
)
from agor.protocol.api import (
    ExecutorInfo,
    Health,
    Page,
)
from agor.protocol.audit import AuditEntry, AuditVerification

DAEMON_ROUTES: list[Route] = [
    # ── the daemon itself ────────────────────────────────────────────────────────────────────
    Route(
        method="GET", path="/executors", action="executor.list",
        handler=executors.page,
        summary="List the executors that run now", result=Page[ExecutorInfo],
    ),
    Route(
        method="GET", path="/livez", action=None,
        handler=health.live,
        summary="Tell whether the daemon answers at all", result=Liveness,
    ),
    Route(
        method="GET", path="/readyz", action=None,
        handler=health.ready,
        summary="Tell whether the daemon can take work",
        result=Readiness, also={503: Readiness},
    ),
    Route(
        method="GET", path="/health", action="daemon.health",
        handler=health.health,
        summary="Tell how the daemon is, in detail", result=Health,
    ),
    Route(
        method="GET", path="/metrics", action="daemon.metrics",
        handler=health.metrics,
        summary="Give the daemon's figures, for Prometheus",
        result=str, media=CONTENT_TYPE_LATEST,
    ),
    Route(
        method="GET", path="/openapi.json", action=None,
        handler=documents.openapi,
        summary="Give this description of the interface", result=dict,
    ),
    Route(
        method="GET", path="/docs", action=None,
        handler=documents.docs,
        summary="Show this description as a page",
        result=str, media="text/html; charset=utf-8", headers=page.HEADERS,
    ),
    # ── the audit log ────────────────────────────────────────────────────────────────────────
    Route(
        method="GET", path="/audit", action="audit.view",
        handler=audit.page,
        summary="List what happened, the newest first",
        query=AuditQuery, result=Page[AuditEntry], errors=(Unprocessable, StoreUnavailable),
    ),
    Route(
        method="GET", path="/audit/verification", action="audit.view",
        handler=audit.verify,
        summary="Verify a part of the audit log",
        details="Begins at its first record, or where the cursor says, and goes on for a bounded "
        "number of records. All is verified once an answer has neither `fault` nor `next_cursor`.",
        query=VerificationQuery, result=AuditVerification,
        errors=(Unprocessable, StoreUnavailable),
    ),
]  # fmt: skip

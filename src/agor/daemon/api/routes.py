"""All routes of the daemon. What is not here does not exist."""

from __future__ import annotations

from agor.daemon.api.daemon_routes import DAEMON_ROUTES
from agor.daemon.api.people_routes import PEOPLE_ROUTES
from agor.daemon.api.permission_routes import PERMISSION_ROUTES
from agor.daemon.api.route import Route
from agor.daemon.api.session_routes import SESSION_ROUTES
from agor.daemon.api.terminal_routes import TERMINAL_ROUTES
from agor.daemon.api.workspace_routes import WORKSPACE_ROUTES

ROUTES: list[Route] = [
    *SESSION_ROUTES,
    *TERMINAL_ROUTES,
    *PERMISSION_ROUTES,
    *WORKSPACE_ROUTES,
    *PEOPLE_ROUTES,
    *DAEMON_ROUTES,
]

"""The daemon's figures, for Prometheus. Whoever knows a figure sets it here."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable

import prometheus_client
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

# When a counter was made says nothing that its first value does not.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_EVENTS = (1, 4, 16, 64, 256, 1024, 4096)


class Metrics:
    """All of them. They are in a registry of their own: two daemons in a process do not meet."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "agor_http_requests", "Requests answered.", ("route", "status"), registry=registry
        )
        self.request_seconds = Histogram(
            "agor_http_request_seconds",
            "From a request's head to the end of its answer.",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.followers = Gauge(
            "agor_feed_followers", "Clients that follow a feed.", ("transport",), registry=registry
        )
        self.cut_off = Counter(
            "agor_feed_cut_off", "Clients of a feed cut off: they did not read.", registry=registry
        )
        self.terminals = Gauge("agor_terminals", "Terminals that are open.", registry=registry)
        self.terminal_clients = Gauge(
            "agor_terminal_clients", "Clients that are attached to a terminal.", registry=registry
        )
        self.terminal_cut_off = Counter(
            "agor_terminal_cut_off",
            "Clients of a terminal cut off: they did not read.",
            registry=registry,
        )
        self.events = Counter("agor_events_committed", "Events made durable.", registry=registry)
        self.commit_events = Histogram(
            "agor_commit_events",
            "Events that were made durable together.",
            buckets=_EVENTS,
            registry=registry,
        )
        self.tasks_ended = Counter(
            "agor_tasks_ended", "Tasks that ended, by how.", ("status",), registry=registry
        )
        self.tasks_waiting = Gauge(
            "agor_tasks_waiting", "Tasks that wait for their turn.", registry=registry
        )
        self.executors = Gauge(
            "agor_executors", "Executors that run.", ("state",), registry=registry
        )
        self.store_available = Gauge(
            "agor_store_available", "1 if the database takes writes.", registry=registry
        )
        #: Called before they are read, to set those that are looked up rather than counted.
        self.before_read: Callable[[], None] = lambda: None
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)

    def show_executors(self, states: Iterable[str]) -> None:
        """Count executors by state."""
        self.executors.clear()
        for state, count in Tally(states).items():
            self.executors.labels(state).set(count)

    def render(self) -> bytes:
        """Spell them all, in Prometheus' text format."""
        self.before_read()
        return generate_latest(self.registry)

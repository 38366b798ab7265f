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
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from agor.daemon.tallies import Commits, Requests

# When a counter was made says nothing that its first value does not.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """All of them. They are in a registry of their own: two daemons in a process do not meet."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Requests()
        registry.register(self.requests)
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
        self.commits = Commits()
        registry.register(self.commits)
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

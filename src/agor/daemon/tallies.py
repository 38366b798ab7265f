"""Figures that are counted on everybody's way: one step each, and put together when they are read.

They are counted in the event loop's thread alone, so nothing is locked.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_EVENTS = (1, 4, 16, 64, 256, 1024, 4096)


class Observations:
    """How often something was how large."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        #: Between each bound and the one before, and past the last.
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, size: float) -> None:
        """Count one."""
        self.counts[bisect_left(self._bounds, size)] += 1
        self.total += size


class Requests(Collector):
    """Requests, by route and status, and how long they took, by route."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], Observations] = {}

    def add(self, route: str, status: int, seconds: float) -> None:
        """Count one that was answered."""
        seen = self._seen.get((route, status))
        if seen is None:
            seen = self._seen[route, status] = Observations(_SECONDS)
        seen.add(seconds)

    def collect(self) -> Iterator[Metric]:
        """Tell them to Prometheus."""
        answered = CounterMetricFamily(
            "agor_http_requests", "Requests answered.", labels=("route", "status")
        )
        took = HistogramMetricFamily(
            "agor_http_request_seconds",
            "From a request's head to the end of its answer.",
            labels=("route",),
        )
        seen = sorted(self._seen.items(), key=lambda each: each[0])
        for (route, status), found in seen:
            answered.add_metric((route, str(status)), sum(found.counts))
        for route, of_route in groupby(seen, key=lambda each: each[0][0]):
            _put(took, (route,), _SECONDS, [found for _, found in of_route])
        yield answered
        yield took


class Commits(Collector):
    """Events that were made durable, and how many together."""

    def __init__(self) -> None:
        self._seen = Observations(_EVENTS)

    def add(self, events: int) -> None:
        """Count those of one commit."""
        self._seen.add(events)

    def collect(self) -> Iterator[Metric]:
        """Tell them to Prometheus."""
        yield CounterMetricFamily(
            "agor_events_committed", "Events made durable.", value=self._seen.total
        )
        together = HistogramMetricFamily(
            "agor_commit_events", "Events that were made durable together."
        )
        _put(together, (), _EVENTS, [self._seen])
        yield together


def _put(
    family: HistogramMetricFamily,
    labels: Sequence[str],
    bounds: Sequence[float],
    seen: Iterable[Observations],
) -> None:
    """Put together what was seen, as Prometheus wants it: each bound with all below it."""
    seen = list(seen)
    below = accumulate(map(sum, zip(*(each.counts for each in seen), strict=True)))
    names = [*(str(float(bound)) for bound in bounds), "+Inf"]
    buckets = list(zip(names, below, strict=True))
    family.add_metric(labels, buckets, sum(each.total for each in seen))

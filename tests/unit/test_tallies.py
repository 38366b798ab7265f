"""What is counted on everybody's way is told as Prometheus' own figures would tell it."""

from __future__ import annotations

import prometheus_client
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from agor.daemon.tallies import _EVENTS, _SECONDS, Commits, Requests

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

SECONDS = st.one_of(st.sampled_from(_SECONDS), st.floats(0, 20))
REQUESTS = st.lists(
    st.tuples(st.sampled_from(("GET /a", "POST /b", "-")), st.sampled_from((200, 404)), SECONDS)
)


def told(registry: CollectorRegistry) -> dict[tuple[str, str], float]:
    """Every sample by its name and labels; sums of floats depend on their order, a little."""
    return {
        (sample.name, str(sorted(sample.labels.items()))): round(sample.value, 9)
        for family in registry.collect()
        for sample in family.samples
    }


@given(REQUESTS)
def test_requests_are_told_as_a_counter_and_a_histogram_would(
    requests: list[tuple[str, int, float]],
):
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    tally = Requests()
    ours.register(tally)
    counter = Counter("agor_http_requests", "", ("route", "status"), registry=theirs)
    histogram = Histogram(
        "agor_http_request_seconds", "", ("route",), buckets=_SECONDS, registry=theirs
    )
    for route, status, seconds in requests:
        tally.add(route, status, seconds)
        counter.labels(route, status).inc()
        histogram.labels(route).observe(seconds)
    assert told(ours) == told(theirs)


@given(st.lists(st.integers(1, 5000)))
def test_commits_are_told_as_a_counter_and_a_histogram_would(commits: list[int]):
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    tally = Commits()
    ours.register(tally)
    counter = Counter("agor_events_committed", "", registry=theirs)
    histogram = Histogram("agor_commit_events", "", buckets=_EVENTS, registry=theirs)
    for events in commits:
        tally.add(events)
        counter.inc(events)
        histogram.observe(events)
    assert told(ours) == told(theirs)
    assert b"agor_commit_events_bucket" in generate_latest(ours)

"""What a group hands back: samples of all rounds, their medians, and how each goal was met."""

import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

# The server under test; all others are its limit or its peers.
OURS = "ours"

# server -> one entry for each round -> metric -> value
Samples = Mapping[str, list[dict[str, float]]]


class BenchError(Exception):
    """A run that failed: there is no figure to report."""


@dataclass(frozen=True)
class Options:
    """What the command line asks of every group."""

    rounds: int
    quick: bool


def values(samples: Samples, server: str, metric: str) -> list[float]:
    """A metric's value in each round; empty if the server was not measured for it."""
    return [measured[metric] for measured in samples.get(server, []) if metric in measured]


def medians(samples: Samples, server: str) -> dict[str, float]:
    metrics = dict.fromkeys(metric for measured in samples.get(server, []) for metric in measured)
    return {metric: statistics.median(values(samples, server, metric)) for metric in metrics}


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 1000 else f"{value:.2f}"


@dataclass(frozen=True)
class Verdict:
    """How one goal was met, or why that could not be measured."""

    name: str
    ours: float | None
    peer: float | None
    ratio: float | None
    round_ratios: list[float]
    goal: str
    ok: bool
    reason: str

    def line(self) -> str:
        ratio = "-" if self.ratio is None else f"{self.ratio:.3f}"
        line = (
            f"BENCH {self.name} ours={_shown(self.ours)} peer={_shown(self.peer)}"
            f" ratio={ratio} goal={self.goal} {'ok' if self.ok else 'short'}"
        )
        return f"{line} {self.reason}" if self.reason else line


@dataclass(frozen=True)
class Goal:
    """A bound on the ratio ours / peer of one metric."""

    name: str
    metric: str
    peer: str
    relation: Literal["<=", ">="]
    bound: float

    def judge(self, samples: Samples, skipped: Mapping[str, str]) -> Verdict:
        """Compare the medians; the ratios of the single rounds show how steady they are."""
        ours = values(samples, OURS, self.metric)
        peer = values(samples, self.peer, self.metric)
        ratio = None
        if ours and peer:
            ratio = statistics.median(ours) / statistics.median(peer)
        return Verdict(
            name=self.name,
            ours=statistics.median(ours) if ours else None,
            peer=statistics.median(peer) if peer else None,
            ratio=ratio,
            round_ratios=[one / other for one, other in zip(ours, peer, strict=False)],
            goal=f"{self.relation}{self.bound:g}",
            ok=ratio is not None and self._met(ratio),
            reason="" if ratio is not None else self._reason(skipped),
        )

    def _met(self, ratio: float) -> bool:
        return ratio <= self.bound if self.relation == "<=" else ratio >= self.bound

    def _reason(self, skipped: Mapping[str, str]) -> str:
        for server in (OURS, self.peer):
            if server in skipped:
                return f"{server} skipped: {skipped[server]}"
        return f"{self.metric} was not measured"


@dataclass(frozen=True)
class GroupResult:
    """All that one group measured."""

    table: str
    verdicts: list[Verdict]
    samples: Samples
    skipped: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        return {
            "goals": [asdict(verdict) for verdict in self.verdicts],
            "medians": {server: medians(self.samples, server) for server in self.samples},
            "skipped": dict(self.skipped),
            "samples": dict(self.samples),
        }

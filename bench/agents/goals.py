"""The goals of the agents group, and its table for people.

Times are judged with a model that takes no time, where all of the difference is ours, and at the
pace of a model that people use.

Memory is judged as the difference: what is there beside the agent with us, and without.
"""

from collections.abc import Mapping

from bench.agents.subjects import SUBJECTS
from bench.results import OURS, Goal, Samples, Verdict, medians

DIRECT = "direct"
#: Not a peer: what is allowed.
LIMIT = "limit"

EXTRA_MB = 10.0
STARTS = 1.0

#: What is measured of each agent: its name in figures, and in words.
TEXT, TOOL, PACED, FIRST = "text", "tool", "paced", "start"
MEASURES = {
    TEXT: "a warm prompt; 200 words, as fast as the agent takes them",
    TOOL: "a warm prompt; a file is read, then 200 words",
    PACED: "a warm prompt; a model that thinks for 0.3 s and says 50 words a second",
    FIRST: "the first prompt of a session: the agent starts",
}


def _goals(agent: str) -> list[Goal]:
    goals = []
    for measure in (TEXT, TOOL, PACED):
        name = f"{agent}_{measure}"
        goals += [
            Goal(f"agents.{name}_first_token", f"{name}_first_ms", DIRECT, "<=", 1.05),
            Goal(f"agents.{name}_total", f"{name}_total_ms", DIRECT, "<=", 1.03),
        ]
    return [
        *goals,
        Goal(f"agents.{agent}_extra_memory_mb", f"{agent}_extra_mb", LIMIT, "<=", 1),
        Goal(f"agents.{agent}_starts_for_two_prompts", f"{agent}_starts", LIMIT, "<=", 1),
    ]


def limits(agent: str) -> dict[str, float]:
    """Give what is allowed where there is no peer to compare with."""
    return {f"{agent}_extra_mb": EXTRA_MB, f"{agent}_starts": STARTS}


def judge(samples: Samples, skipped: Mapping[str, str]) -> list[Verdict]:
    """Compare ours with the agent driven directly; each agent's goals fall out with it."""
    verdicts = []
    for subject in SUBJECTS:
        reasons = {OURS: skipped[subject.name]} if subject.name in skipped else {}
        verdicts += [goal.judge(samples, reasons) for goal in _goals(subject.name)]
    return verdicts


def table(samples: Samples, skipped: Mapping[str, str]) -> str:
    """A part for each agent, medians over the rounds."""
    ours, direct = medians(samples, OURS), medians(samples, DIRECT)
    lines: list[str] = []
    for subject in SUBJECTS:
        agent = subject.name
        if agent in skipped:
            lines += [f"{agent} skipped: {skipped[agent]}", ""]
            continue
        lines.append(f"{agent:31}  ours ms  directly ms  difference")
        for measure in MEASURES:
            for metric, words in (("first_ms", "first token"), ("total_ms", "total")):
                name = f"{agent}_{measure}_{metric}"
                one, other = ours[name], direct[name]
                what = f"  {measure}, {words}"
                lines.append(f"{what:31} {one:8.1f} {other:12.1f} {one - other:11.1f}")
        executor, keeper = ours[f"{agent}_executor_mb"], ours[f"{agent}_keeper_mb"]
        driver = direct[f"{agent}_driver_mb"]
        lines += [
            f"  private MB beside the agent: executor {executor:.1f}, its keeper {keeper:.1f}",
            f"  private MB of a direct driver: {driver:.1f}",
            f"  programs started for two prompts: {ours[f'{agent}_starts']:.0f}",
            "",
        ]
    return "\n".join([*lines, *(f"{name}: {words}" for name, words in MEASURES.items())])

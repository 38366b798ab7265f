"""The agents group: in every round each agent has two conversations, ours and a direct one.

The two take turns prompt by prompt, so both see the same mood of the machine, and another one
begins each time. A round has a new daemon and new conversations; what is told of a round is the
median of its prompts.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.agents.direct import Driver, driver
from bench.agents.goals import DIRECT, FIRST, LIMIT, PACED, TEXT, TOOL, judge, limits, table
from bench.agents.model import model_server, paced_prompt, text_prompt, tool_prompt
from bench.agents.ours import Conversation, Daemon, daemon, keep_key
from bench.agents.processes import agents_of, around
from bench.agents.subjects import Subject, line_up
from bench.results import OURS, BenchError, GroupResult, Options
from bench.spawn.processes import memory

#: Prompts of each kind in one round.
TURNS = {TEXT: 15, TOOL: 9, PACED: 4}
QUICK_TURNS = 2
#: Seconds between two prompts: an agent has things to do after an answer.
SETTLE = 0.05
#: Seconds of silence in which executors get ready for what comes: the agents' libraries too.
SPARE = 6.0
#: Not below /tmp: what agents run in their sandboxes may have another one.
TEMPORARY = "/var/tmp"

Figures = dict[str, dict[str, float]]
Prompt = Callable[[str], dict[str, float]]


def run(options: Options) -> GroupResult:
    lineup = line_up()
    samples: dict[str, list[dict[str, float]]] = {OURS: [], DIRECT: [], LIMIT: []}
    for number in range(1, options.rounds + 1):
        print(f"agents: round {number} of {options.rounds}", file=sys.stderr)
        figures: Figures = {name: {} for name in samples}
        for subject in lineup.subjects:
            with tempfile.TemporaryDirectory(prefix="agor-bench-", dir=TEMPORARY) as folder:
                _round(subject, Path(folder), options.quick, figures)
        for name, measured in figures.items():
            samples[name].append(measured)
    return GroupResult(
        table=table(samples, lineup.skipped),
        verdicts=judge(samples, lineup.skipped),
        samples=samples,
        skipped=lineup.skipped,
    )


def _round(subject: Subject, folder: Path, quick: bool, figures: Figures) -> None:
    workspace = folder / "workspace"
    workspace.mkdir()
    file = workspace / "notes.txt"
    file.write_text("A line to be read.\n", encoding="ascii")
    with model_server(folder / "model.log") as url, daemon(folder / "ours") as ours:
        keep_key(ours, subject, url)
        _warm_up(ours, subject, workspace)
        with driver(subject, folder / "direct", workspace, f"{url}{subject.base_path}") as direct:
            try:
                _converse(subject, ours, direct, workspace, quick, figures)
            except BenchError as error:
                raise BenchError(f"{subject.name}: {error}\n{ours.last_words()}") from error


def _warm_up(ours: Daemon, subject: Subject, workspace: Path) -> None:
    """Have the daemon start what it starts once, and then have an executor in reserve."""
    conversation = Conversation(ours, subject, workspace)
    conversation.prompt(text_prompt())
    conversation.close()
    time.sleep(SPARE)


def _converse(
    subject: Subject, ours: Daemon, direct: Driver, workspace: Path, quick: bool, figures: Figures
) -> None:
    agent = subject.name
    conversation = Conversation(ours, subject, workspace)
    sides: dict[str, Prompt] = {OURS: conversation.prompt, DIRECT: direct.prompt}
    scripts = {
        TEXT: text_prompt(),
        TOOL: tool_prompt(subject, workspace / "notes.txt"),
        PACED: paced_prompt(),
    }
    _take_turns(f"{agent}_{FIRST}", sides, text_prompt(), 1, figures)
    started = agents_of(subject, ours.pid)
    for measure, script in scripts.items():
        turns = QUICK_TURNS if quick else TURNS[measure]
        _take_turns(f"{agent}_{measure}", sides, script, turns, figures)
        started |= (running := agents_of(subject, ours.pid))
    if len(running) != 1:
        raise BenchError(f"{len(running)} programs run where one should")
    beside = [memory(each).private for each in around(running.pop())]
    driver_mb = memory(direct.pid).private
    figures[OURS] |= {
        f"{agent}_starts": len(started),
        f"{agent}_executor_mb": beside[0],
        f"{agent}_keeper_mb": beside[1],
        f"{agent}_extra_mb": sum(beside) - driver_mb,
    }
    figures[DIRECT][f"{agent}_driver_mb"] = driver_mb
    figures[LIMIT] |= limits(agent)
    conversation.close()


def _take_turns(
    name: str, sides: dict[str, Prompt], script: str, turns: int, figures: Figures
) -> None:
    taken: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for number in range(turns):
        for side in sorted(sides, reverse=number % 2 == 1):
            taken[side].append(sides[side](script))
            time.sleep(SETTLE)
    for side, times in taken.items():
        for metric in ("first_ms", "total_ms"):
            median = statistics.median(each[metric] for each in times)
            figures[side][f"{name}_{metric}"] = median

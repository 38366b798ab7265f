"""The processes that a session costs: the agent's own, and those that we put around it."""

from pathlib import Path

from bench.agents.subjects import Subject
from bench.spawn.processes import descendants

#: A process, and when it was started: ids are used again.
Identity = tuple[int, int]


def agents_of(subject: Subject, root: int) -> set[Identity]:
    """Find the agent's programs below a process."""
    found = set()
    for pid in descendants(root):
        if subject.program in _words(pid) and (stat := _stat(pid)):
            found.add((pid, int(stat[19])))
    return found


def around(agent: Identity) -> tuple[int, int]:
    """Find the executor that started an agent, and its keeper."""
    executor = _parent(agent[0])
    return executor, _parent(executor)


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


def _words(pid: int) -> list[str]:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return command.split("\0")


def _stat(pid: int) -> list[str]:
    """Read the fields from the third on, behind the name, which may have any character."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()

"""Chaos for the pool: kill -9 of pool, launcher, keepers and executors at random, under load."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import msgspec

from agor.daemon.pool.limits import probe
from agor.linux import become_subreaper, family, kill_family, process_of, send
from agor.protocol.launching import Family, Process
from tests.chaos.ledger import Ledger
from tests.chaos.pool_worker import WORDS

SESSIONS = 6
#: Who is killed, and how often in comparison.
VICTIMS = {"executor": 6, "keeper": 3, "launcher": 2, "pool": 2}
#: Seconds between two kills.
PAUSE = (0.01, 0.2)
_PATIENCE = 90.0


class Run:
    """One run: the pool process, who is to be killed, and the reckoning."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = (folder / "log").open("ab")
        self._pool = self._start()
        self.kills: Counter[str] = Counter()

    def _start(self) -> subprocess.Popen[str]:
        pool = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.pool_worker", str(self._folder), str(SESSIONS)],
            stdout=subprocess.PIPE, stderr=self._log, text=True,
        )  # fmt: skip
        assert pool.stdout is not None
        if pool.stdout.readline() != "ready\n":
            pool.kill()
            pool.communicate()
            own = process_of(os.getpid())
            assert own is not None
            kill_family(family([own])[1:])
            last = (self._folder / "log").read_text().splitlines()[-40:]
            raise SystemExit("\n".join([*last, "chaos: the pool did not come up"]))
        return pool

    # ── killing ──────────────────────────────────────────────────────────────────────────────

    def kill_somebody(self) -> None:
        """Kill one process, of a kind chosen at random."""
        (kind,) = random.choices(list(VICTIMS), weights=list(VICTIMS.values()))
        if kind == "pool":
            self._pool.kill()
            self._reap()
            self.kills[kind] += 1
            self._pool = self._start()
            return
        victims = self._launchers() if kind == "launcher" else self._members(kind)
        if victims and send(random.choice(victims), signal.SIGKILL):
            self.kills[kind] += 1

    def _members(self, kind: str) -> list[Process]:
        found = []
        for path in (self._folder / "run" / "executors").glob("*/family"):
            with contextlib.suppress(OSError, msgspec.DecodeError):
                known = msgspec.json.decode(path.read_bytes(), type=Family)
                found.append(known.keeper if kind == "keeper" else known.executor)
        return found

    def _launchers(self) -> list[Process]:
        own = process_of(os.getpid())
        assert own is not None
        found = []
        for process in family([own]):
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{process.pid}/cmdline").read_bytes()
                # Its forks look the same; the launcher is a child of ours or of the pool.
                stat = Path(f"/proc/{process.pid}/stat").read_text()
                parent = int(stat.rsplit(")")[1].split()[1])
                if b"--launcher" in command and parent in (own.pid, self._pool.pid):
                    found.append(process)
        return found

    def _reap(self) -> None:
        """Reap the pool, and whatever came back to us."""
        if self._pool.stdout is not None:
            self._pool.stdout.close()
        self._pool.wait()
        reap_orphans()

    # ── the reckoning ────────────────────────────────────────────────────────────────────────

    def finish(self) -> tuple[int, int, int]:
        """Let what is under way end; count what was lost, doubled and left behind."""
        self._pool.send_signal(signal.SIGTERM)
        try:
            self._pool.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            print("chaos: the pool does not end")
            self._pool.kill()
        self._reap()
        self._log.close()
        leaked = self._leaked()
        lost, duplicated = self._examine()
        return lost, duplicated, leaked

    def _leaked(self) -> int:
        own = process_of(os.getpid())
        assert own is not None
        # A launcher that imports the agents' libraries looks for its daemon when it has them.
        deadline = time.monotonic() + 30
        while len(left := family([own])) > 1 and time.monotonic() < deadline:
            reap_orphans()
        for process in left[1:]:
            print(f"chaos: left behind: process {process.pid}: {_command(process)}")
        kill_family(left[1:])
        things = [
            *(self._folder / "run" / "executors").iterdir(),
            *(self._folder / "records").iterdir(),
            *probe(self._folder / "run").leftovers(),
        ]
        for thing in things:
            print(f"chaos: left behind: {thing}")
        return len(left) - 1 + len(things)

    def _examine(self) -> tuple[int, int]:
        ledger = Ledger(self._folder / "ledger.db")
        faults, lost = ledger.faults(), []
        ends: Counter[str] = Counter()
        for task, _, _, state, why in ledger.tasks():
            ends[state] += 1
            events = ledger.events(task)
            if [sequence for sequence, _, _ in events] != list(range(1, len(events) + 1)):
                lost.append(f"{task} has gaps")
            if any(kind == "task_result" for _, kind, _ in events[:-1]):
                faults.append(f"{task} has events behind its result")
            if state == "completed":
                text = "".join(data for _, kind, data in events if kind == "block_delta")
                missing = [n for n in range(WORDS) if text.count(f"<{task}:{n}>") != 1]
                if missing:
                    lost.append(f"{task} completed, and these words are not there once: {missing}")
            elif state != "failed" or why is None:
                lost.append(f"{task} is {state}")
        ledger.close()
        for what in (*faults, *lost):
            print(f"chaos: {what}")
        print(f"chaos: {sum(ends.values())} tasks, {dict(ends)}")
        return len(lost), len(faults)


def reap_orphans() -> None:
    """We are the subreaper of all of them."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _command(process: Process) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process.pid}/cmdline").read_text().replace("\0", " ")
    return "?"


def run(duration: float, kills: int) -> bool:
    """Kill for so long and at least so often; tell whether all is well."""
    become_subreaper()
    with tempfile.TemporaryDirectory(prefix="agor-chaos-") as folder:
        chaos = Run(Path(folder))
        end = time.monotonic() + duration
        while time.monotonic() < end or chaos.kills.total() < kills:
            time.sleep(random.uniform(*PAUSE))
            chaos.kill_somebody()
        lost, duplicated, leaked = chaos.finish()
        if lost or duplicated or leaked:
            kept = Path(tempfile.mkdtemp(prefix="agor-chaos-kept-"))
            for name in ("log", "ledger.db"):
                (kept / name).write_bytes((Path(folder) / name).read_bytes())
            print(f"chaos: log and ledger are in {kept}")
    print(f"chaos: killed {dict(chaos.kills)}")
    total = chaos.kills.total()
    print(f"chaos: kills={total} lost={lost} duplicated={duplicated} leaked={leaked}")
    return not (lost or duplicated or leaked)

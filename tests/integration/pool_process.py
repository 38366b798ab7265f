"""The test's end of a pool that runs in another process, as any user: see `pool_driver`."""

from __future__ import annotations

import itertools
import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.integration.processes import PATIENCE

#: An executor that is taken back remembers its tasks, so no two pools may use one name.
_tasks = itertools.count(1)
_DRIVER = Path(__file__).with_name("pool_driver.py")


class PoolError(Exception):
    """The pool refused, in its own words."""

    def __init__(self, code: str, message: str, hint: str | None) -> None:
        super().__init__(f"{code}: {message}\n{hint}")
        self.code = code
        self.message = message
        self.hint = hint


class PoolProcess:
    """A pool in a process of its own."""

    def __init__(
        self,
        python: Path,
        runtime: Path,
        log: Path,
        *,
        env: dict[str, str],
        become: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.runtime = runtime
        self.log = log
        self._numbers = itertools.count(1)
        self._answers: dict[int, dict[str, Any]] = {}
        self._unread = b""
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [python, "-c", _DRIVER.read_text()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=env,
                cwd="/",
                umask=0o077,
                **(become or {}),
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._write({"runtime": str(runtime), **settings})

    @property
    def pid(self) -> int:
        """The process that has the pool."""
        return self._process.pid

    # ── asking ───────────────────────────────────────────────────────────────────────────────

    def ask(self, do: str, **arguments: Any) -> Any:
        """Ask and wait for the answer."""
        return self.answer(self.send(do, **arguments))

    def send(self, do: str, **arguments: Any) -> int:
        """Ask; the number is for `answer`."""
        number = next(self._numbers)
        self._write({"id": number, "do": do, **arguments})
        return number

    def answer(self, number: int) -> Any:
        """Wait for an answer."""
        deadline = time.monotonic() + PATIENCE
        while number not in self._answers:
            self._read(deadline)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise PoolError(**answer["error"])
        return answer["ok"]

    def run(self, session: str, *command: str, cwd: str = "/") -> str:
        """Run a command in a session's executor; what it printed."""
        task = f"task-{next(_tasks)}"
        self.ask("prompt", session=session, task=task, script=[{"run": command}], cwd=cwd)
        result = self.ask("result", task=task)
        assert result["status"] == "completed", result
        return str(result["text"])

    def _write(self, message: dict[str, Any]) -> None:
        self._stdin.write(json.dumps(message).encode() + b"\n")
        self._stdin.flush()

    def _read(self, deadline: float) -> None:
        ready, _, _ = select.select([self._stdout], [], [], max(0, deadline - time.monotonic()))
        assert ready, f"the pool did not answer:\n{self.log.read_text()[-4000:]}"
        data = os.read(self._stdout.fileno(), 64 * 1024)
        assert data, f"the pool is gone:\n{self.log.read_text()[-4000:]}"
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            answer = json.loads(line)
            self._answers[answer["id"]] = answer

    # ── ends ─────────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """End every executor and the process, in order."""
        self._stdin.close()
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it did not end:\n{self.log.read_text()[-4000:]}") from None
        self._stdout.close()
        assert code == 0, f"it ended with {code}:\n{self.log.read_text()[-4000:]}"

    def end(self) -> None:
        """End it in any case, in order if that works; a pool that has ended already stays so."""
        if not self._stdout.closed:
            try:
                self.close()
            finally:
                self.kill()

    def kill(self) -> None:
        """End the process as a crash would; a second time does nothing."""
        self._process.kill()
        self._process.wait(PATIENCE)
        self._stdin.close()
        self._stdout.close()

"""Codex driven directly: `codex app-server`, with the least client that its protocol allows.

Usage: python -m bench.agents.codex_directly WORKSPACE BASE_URL KEY MODEL
"""

import asyncio
import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agor.agents.codex.config import program
from bench.agents.driving import Given, drive
from bench.results import BenchError

KEY_VARIABLE = "BENCH_KEY"
#: The longest line that it may say.
LINE = 2**26


class Codex:
    """A conversation, begun with its first prompt."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._numbers = itertools.count(1)
        self._server: asyncio.subprocess.Process | None = None
        self._thread_id = ""

    async def prompt(self, text: str, on_text: Callable[[], None]) -> None:
        """Put a prompt and follow it to the end of its turn."""
        if self._server is None:
            await self._begin()
        words = [{"type": "text", "text": text, "text_elements": []}]
        self._send("turn/start", {"threadId": self._thread_id, "input": words})
        while (said := await self._read()).get("method") != "turn/completed":
            if said.get("method") == "item/agentMessage/delta":
                on_text()
            elif "method" in said and "id" in said:
                self._write({"id": said["id"], "result": {"decision": "accept"}})
            elif "error" in said:
                raise BenchError(f"codex refused: {said}")
        if said["params"]["turn"]["status"] != "completed":
            raise BenchError(f"codex failed: {said}")

    async def close(self) -> None:
        """End the program."""
        if self._server is not None:
            assert self._server.stdin is not None
            self._server.stdin.close()
            await self._server.wait()

    async def _begin(self) -> None:
        command = [str(program()), "app-server"]
        for setting in _settings(self._given):
            command += ["-c", setting]
        self._server = await asyncio.create_subprocess_exec(
            *command,
            cwd=Path(self._given.workspace),
            env={**os.environ, KEY_VARIABLE: self._given.key},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE,
        )
        await self._call("initialize", {"clientInfo": {"name": "bench", "version": "1"}})
        self._write({"method": "initialized"})
        asking = {"approvalPolicy": "untrusted", "sandbox": "danger-full-access"}
        thread = {"cwd": self._given.workspace, "model": self._given.model, **asking}
        self._thread_id = (await self._call("thread/start", thread))["thread"]["id"]

    async def _call(self, method: str, params: dict[str, Any]) -> Any:
        number = self._send(method, params)
        while (said := await self._read()).get("id") != number or "method" in said:
            pass
        if "error" in said:
            raise BenchError(f"codex refused {method}: {said['error']}")
        return said["result"]

    def _send(self, method: str, params: dict[str, Any]) -> int:
        number = next(self._numbers)
        self._write({"id": number, "method": method, "params": params})
        return number

    def _write(self, message: dict[str, Any]) -> None:
        assert self._server is not None
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(message).encode() + b"\n")

    async def _read(self) -> dict[str, Any]:
        assert self._server is not None
        assert self._server.stdout is not None
        line = await self._server.stdout.readline()
        if not line:
            raise BenchError("codex has ended")
        said: dict[str, Any] = json.loads(line)
        return said


def _settings(given: Given) -> tuple[str, ...]:
    provider = (
        f'{{name="bench",base_url={json.dumps(given.base_url)},wire_api="responses",'
        f'env_key="{KEY_VARIABLE}"}}'
    )
    return (
        "analytics.enabled=false",
        "check_for_update_on_startup=false",
        "features.plugins=false",
        "features.apps=false",
        'model_provider="bench"',
        f"model_providers.bench={provider}",
    )


if __name__ == "__main__":
    drive(Codex)

"""Sends random lines to a live executor, for as long as one likes: `make fuzz LINES=1000000`.

Lines are good messages, the same with bytes changed, cut, doubled or mixed, and plain noise. They
go out in writes of any length. After each round a `ping` must come back; until it does, all that
comes must be a proper answer, and no answer may come twice for one request. In the end the executor
must be alive, with no more descriptors than it began with, and not much more memory.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROUND = 200
SEEDS: list[bytes] = [
    b'{"jsonrpc":"2.0","id":%d,"method":"ping","params":{}}',
    b'{"jsonrpc":"2.0","id":"s%d","method":"ping"}',
    b'{"jsonrpc":"2.0","id":%d,"method":"stop_task","params":{"session_token":"t","task_id":"x"}}',
    b'{"jsonrpc":"2.0","id":%d,"method":"execute_prompt","params":{"prompt":"hi"}}',
    b'{"jsonrpc":"2.0","method":"ack_messages","params":{"task_id":"t","sequence":%d}}',
    b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":%d}}',
    b'[{"jsonrpc":"2.0","id":%d,"method":"ping"},{"jsonrpc":"2.0","method":"ping"},1]',
    b'{"jsonrpc":"2.0","id":%d,"result":{"pong":true}}',
    '{"jsonrpc":"2.0","id":"ü%d","method":"größe","params":["\\ud83d\\ude00"]}'.encode(),
    b'{"jsonrpc":"2.0","id":%d,"error":{"code":1,"message":"x"}}',
]


class Target:
    """A running executor and one connection to it."""

    def __init__(self, folder: str) -> None:
        path = f"{folder}/executor.sock"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "agor.executor.main", "--socket", path, "--log-level", "error"],
            stderr=subprocess.PIPE,
        )
        self.path = path
        self.sock = self._connect()
        self.received = self.sock.makefile("rb")

    def _connect(self) -> socket.socket:
        while self.process.poll() is None:
            sock = socket.socket(socket.AF_UNIX)
            try:
                sock.connect(self.path)
            except OSError:
                sock.close()
            else:
                sock.settimeout(60)
                return sock
        raise SystemExit("the executor did not start")

    def resources(self) -> tuple[int, int]:
        """Tell its memory in kilobytes and its open descriptors."""
        folder = Path(f"/proc/{self.process.pid}")
        status = (folder / "status").read_text()
        memory = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(memory.split()[1]), len(list((folder / "fd").iterdir()))


def spoil(line: bytes, chance: random.Random) -> bytes:
    """Change a line in one of many ways."""
    place = chance.randrange(len(line) + 1)
    match chance.randrange(8):
        case 0:
            return line[:place]
        case 1:
            return line[:place] + chance.randbytes(chance.randrange(1, 9)) + line[place:]
        case 2:
            return line[:place] + line[place + 1 :]
        case 3:
            return line + line
        case 4:
            return chance.randbytes(chance.randrange(1, 200))
        case 5:
            return line.replace(b"2.0", b"%d" % chance.randrange(10**30))
        case 6:
            return b"[" * chance.randrange(1, 3000) + line
        case _:
            return line.replace(b":", b":[", 1)


def round_of_lines(number: int, chance: random.Random) -> tuple[list[bytes], bytes]:
    """Draw some lines, and the ping that ends them."""
    lines = []
    for index in range(ROUND):
        line = chance.choice(SEEDS) % (number * ROUND + index)
        if chance.random() < 0.7:
            line = spoil(line, chance)
        lines.append(line.replace(b"\n", b"\r"))
    last = b"last-%d" % number
    return lines, b'{"jsonrpc":"2.0","id":"%b","method":"ping"}' % last


def check(answer: Any, seen: set[Any]) -> None:
    """Stop if this is no proper answer, or the second one to a request."""
    if isinstance(answer, list):
        for one in answer:
            check(one, seen)
        return
    proper = answer.get("jsonrpc") == "2.0" and ("result" in answer) != ("error" in answer)
    if not proper:
        raise SystemExit(f"not an answer: {answer}")
    if "result" in answer and answer["id"] is not None:
        key = (type(answer["id"]), answer["id"])
        # Doubled lines are two requests; anything beyond that is a mistake.
        if (key, 2) in seen:
            raise SystemExit(f"answered three times: {answer}")
        seen.add((key, 2 if (key, 1) in seen else 1))


def send(target: Target, data: bytes, chance: random.Random) -> None:
    """Write in pieces of any length."""
    while data:
        size = chance.choice((1, 7, 100, 4096, 65536))
        target.sock.sendall(data[:size])
        data = data[size:]


def fuzz(lines: int, seed: int) -> None:
    """Send that many lines and say what came of it."""
    chance = random.Random(seed)
    answers = 0
    with tempfile.TemporaryDirectory() as folder:
        target = Target(folder)
        target.sock.sendall(b'{"jsonrpc":"2.0","id":0,"method":"ping"}\n')
        target.received.readline()
        before = target.resources()
        try:
            for number in range(-(-lines // ROUND)):
                drawn, last = round_of_lines(number, chance)
                send(target, b"\n".join([*drawn, last]) + b"\n", chance)
                seen: set[Any] = set()
                while True:
                    answer = json.loads(target.received.readline())
                    answers += 1
                    if isinstance(answer, dict) and answer.get("id") == f"last-{number}":
                        break
                    check(answer, seen)
            after = target.resources()
        finally:
            target.process.terminate()
            code = target.process.wait(30)
    print(f"{lines} lines, {answers} answers, seed {seed}; exit code {code}")
    print(f"memory {before[0]} → {after[0]} kB, descriptors {before[1]} → {after[1]}")
    if code != 0 or after[1] > before[1] or after[0] > before[0] + 50_000:
        raise SystemExit("the executor did not hold")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    fuzz(arguments.lines, arguments.seed)

"""What the machine allows a fork of a Python that has the agents' libraries: the bare technique.

A launcher that forks whoever is asked for, and a uvloop Protocol in it that answers `ping` and, to
`execute_prompt`, streams an event at the pace of the prompt. No keeper, no limits, no descriptors
closed, no outbox, no checks: the gap between this and `launcher_fork` is their price, and the gap
between this and C is that of Python.

Usage: python fork_prototype.py, with the control socket as standard input
"""

import array
import asyncio
import gc
import json
import os
import signal
import socket
import time
from typing import Any, NoReturn, cast

import msgspec
import uvloop

from agor.agents.registry import import_ahead

PACKET = 1 << 20


class Request(msgspec.Struct, gc=False):
    """Any line."""

    method: str
    id: int | None = None
    params: Any = None


class Server(asyncio.Protocol):
    """Answers every line."""

    _streaming: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        for request in msgspec.json.Decoder(Request).decode_lines(data):
            if request.method == "ping":
                self._write({"jsonrpc": "2.0", "id": request.id, "result": {"pong": True}})
            elif request.method == "execute_prompt":
                params = request.params
                loop = asyncio.get_running_loop()
                self._streaming = loop.create_task(
                    self._stream(params["task_id"], params["prompt"])
                )

    def connection_lost(self, _: Exception | None) -> None:
        if self._streaming is not None:
            self._streaming.cancel()

    async def _stream(self, task_id: str, every_ms: str) -> None:
        step, due, sequence = int(every_ms) / 1000, time.monotonic(), 0
        while True:
            due, sequence = due + step, sequence + 1
            await asyncio.sleep(due - time.monotonic())
            text = f"@{time.monotonic_ns()}@"
            event = {"kind": "block_delta", "block_id": task_id, "index": sequence, "text": text}
            at = time.time_ns() // 1_000_000
            params = {"task_id": task_id, "sequence": sequence, "timestamp": at, "event": event}
            self._write({"jsonrpc": "2.0", "method": "report_message", "params": params})

    def _write(self, message: dict[str, Any]) -> None:
        self._transport.write(msgspec.json.encode(message) + b"\n")


def serve(listener: int) -> NoReturn:
    loop = uvloop.new_event_loop()
    sock = socket.socket(fileno=listener)
    loop.run_until_complete(loop.create_unix_server(Server, sock=sock))
    loop.run_forever()
    os._exit(0)


def answer(packet: bytes, fds: "array.array[int]") -> Any:
    request = json.loads(packet)
    if request["method"] == "signal_family":
        pid = request["params"]["family"]["executor"]["pid"]
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    elif request["method"] == "spawn":
        pid = os.fork()
        if pid == 0:
            serve(fds[0])
        # It has no keeper.
        return {"executor": {"pid": pid}, "keeper": {"pid": pid}}
    return {}


def main() -> None:
    import_ahead()
    # What a first loop imports and makes.
    uvloop.new_event_loop().close()
    signal.signal(signal.SIGUSR1, lambda *_: gc.collect() and None)
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=0) as listener:
        control, _ = listener.accept()
    while True:
        packet, fds, _, _ = socket.recv_fds(control, PACKET, 8)
        if not packet:
            return
        result = answer(packet, array.array("i", fds))
        control.sendall(json.dumps({"id": 1, "result": result}).encode())
        for fd in fds:
            os.close(fd)


if __name__ == "__main__":
    main()

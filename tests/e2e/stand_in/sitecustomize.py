"""A daemon that behaves as badly as a test wants it to, in the place of `agor.daemon.process`.

Python imports this module by itself when this folder is in PYTHONPATH. STAND_IN says what to do.
"""

from __future__ import annotations

import contextlib
import http.server
import os
import signal
import sys
import threading
import types
from typing import Any

HOW = os.environ.get("STAND_IN", "")


class Handler(http.server.BaseHTTPRequestHandler):
    token = ""

    def do_GET(self) -> None:
        if self.path == "/readyz" and HOW == "unready":
            self.answer(503, b'{"type":"","title":"","status":503,"detail":"no disk","code":"x"}')
        elif self.path == "/readyz":
            self.answer(200, b"{}")
        elif HOW == "mute":
            self.answer(500, b"")
        elif self.headers["Authorization"] != f"Bearer {self.token}":
            self.answer(401, b"{}")
        else:
            checks = (
                b'[{"name":"store","ok":true,"detail":"well"},'
                b'{"name":"pool","ok":false,"detail":"ill\\u001b[2J"}]'
            )
            self.answer(
                200, b'{"status":"ok","version":"0","uptime_ms":1,"checks":' + checks + b"}"
            )

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def run(config: Any, home: Any, host: str | None = None, port: int | None = None) -> int:
    from agor.errors import StoreUnusable

    if HOW == "dies":
        print("\x1b[31mlast words\x1b[0m", file=sys.stderr, flush=True)
        raise StoreUnusable("the database is of a newer version", hint="Install a newer agor.")
    if HOW == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    with home.lock():
        return serve(config, home, host, port)


def serve(config: Any, home: Any, host: str | None, port: int | None) -> int:
    import agor

    ended = threading.Event()
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGTERM, lambda *_: None if HOW == "stubborn" else ended.set())
    Handler.token = home.token()
    at = (host or config.daemon.host, config.daemon.port if port is None else port)
    server = http.server.ThreadingHTTPServer(at, Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    version = "0.0.0-old" if HOW == "old" else agor.__version__
    url = f"http://{at[0]}:{server.server_address[1]}"
    described = contextlib.nullcontext() if HOW == "undescribed" else home.described(url, version)
    with described:
        served = f"serving with {config.execution.max_executors} executors"
        print(served, file=sys.stderr, flush=True)
        ended.wait()
    if HOW == "lingers":
        print("lingering", file=sys.stderr, flush=True)
        signal.pause()
    print("ended in order", file=sys.stderr, flush=True)
    return 0


if HOW:
    stand_in: Any = types.ModuleType("agor.daemon.process")
    stand_in.run = run
    sys.modules["agor.daemon.process"] = stand_in

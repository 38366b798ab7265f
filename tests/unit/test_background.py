"""A daemon in the background that does not do what it should, seen from the commands."""

from __future__ import annotations

import fcntl
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agor.cli import background
from agor.cli.daemon import duration
from agor.errors import DaemonError, DaemonNotRunning
from agor.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def little_patience(monkeypatch):
    monkeypatch.setattr(background, "_START_TIMEOUT", 0.2)
    monkeypatch.setattr(background, "_ANSWER_TIMEOUT", 0.2)
    monkeypatch.setattr(background, "_INTERVAL", 0.01)


class Unready(http.server.BaseHTTPRequestHandler):
    """Never ready."""

    answer = b'{"status": "stopping", "failing": []}'

    def do_GET(self) -> None:
        self.send_response(503)
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def unready_url() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), Unready) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        serving.join()


@pytest.mark.usefixtures("little_patience")
def test_one_that_does_not_become_ready_is_told_with_its_reason(home, unready_url):
    with home.lock():
        home.describe(unready_url, "0")
        with pytest.raises(DaemonNotRunning) as caught:
            background.start(home, [])
    assert caught.value.message.endswith("is not ready after 0 s: it is stopping")
    assert "agor daemon logs" in (caught.value.hint or "")


@pytest.mark.usefixtures("little_patience")
def test_one_that_does_not_listen_is_told_with_the_reason(home):
    with home.lock():
        home.describe("http://127.0.0.1:1", "0")
        with pytest.raises(DaemonNotRunning, match=r"it does not answer .*Connection refused"):
            background.start(home, [])


@pytest.mark.usefixtures("little_patience")
def test_whoever_else_holds_the_lock_is_not_signalled(home):
    home.prepare()
    with home.lock_file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # A process that has long ended, or that has its pid now: not the one that is meant.
        lock.write('{"pid": 1, "started": 12345678901234}')
        lock.flush()
        with pytest.raises(DaemonError, match="is no daemon"):
            background.stop(home, 0.1, force=True)


@pytest.mark.parametrize(
    ("milliseconds", "told"),
    [
        (0, "0 s"),
        (59_999, "59 s"),
        (60_000, "1 min 0 s"),
        (3_600_000, "1 h 0 min"),
        (90_061_000, "1 d 1 h"),
        (86_400_000 * 400, "400 d 0 h"),
    ],
)
def test_how_long_it_runs_is_told_in_two_units(milliseconds, told):
    assert duration(milliseconds) == told

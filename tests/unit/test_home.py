"""AGOR_HOME: who may enter it, its token, and who serves it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from tests.integration.processes import PATIENCE

from agor.errors import AgorError, BadInput, DaemonRunning
from agor.home import Description, Home

SERVES = """
import sys; from pathlib import Path; from agor.home import Home
home = Home(Path(sys.argv[1]))
with home.lock():
    if sys.argv[2]:
        home.describe(sys.argv[2], "1.2.3")
    print("serves", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@contextmanager
def daemon(home: Home, url: str = "http://127.0.0.1:1") -> Iterator[subprocess.Popen[str]]:
    """Another process that is the daemon of this home, until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVES, str(home.folder), url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "serves\n"
        try:
            yield process
        finally:
            process.stdin.close()
            process.wait(PATIENCE)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# ── the folder ───────────────────────────────────────────────────────────────────────────────────


def test_it_is_where_the_variable_says_else_below_the_users_home(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ada")
    for value, folder in [
        ("/srv/agor", "/srv/agor"),
        ("~/x", "/home/ada/x"),
        ("x", f"{tmp_path}/x"),
        ("", "/home/ada/.agor"),
    ]:
        monkeypatch.setenv("AGOR_HOME", value)
        assert Home.find().folder == Path(folder)
    monkeypatch.delenv("AGOR_HOME")
    assert Home.find().folder == Path("/home/ada/.agor")


def test_looking_at_it_makes_nothing(home):
    assert home.running() is None
    assert home.read_token() is None
    assert not home.folder.exists()


def test_it_is_made_for_us_alone(home):
    home.prepare()
    home.prepare()
    assert [mode(each) for each in (home.folder, home.runtime, home.log_file.parent)] == [0o700] * 3


@pytest.mark.parametrize("bits", [0o720, 0o702, 0o1777])
def test_one_that_others_can_write_to_is_refused(home, bits):
    home.folder.mkdir()
    home.folder.chmod(bits)
    with pytest.raises(BadInput) as caught:
        home.prepare()
    assert f"chmod 700 {home.folder}" in (caught.value.hint or "")
    assert list(home.folder.iterdir()) == []


def test_one_that_others_can_look_into_will_do_but_they_cannot_enter_what_matters(home):
    home.folder.mkdir(mode=0o755)
    home.token()
    assert mode(home.runtime) == 0o700
    assert mode(home.token_file) == 0o600
    home.runtime.chmod(0o755)
    with pytest.raises(BadInput, match="others could"):
        home.prepare()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make folders of others")
def test_one_of_another_user_is_refused(home):
    home.folder.mkdir(mode=0o700)
    os.chown(home.folder, 12345, 12345)
    with pytest.raises(BadInput, match="belongs to another user"):
        home.prepare()


def test_one_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="cannot make the folder"):
        Home(tmp_path / "file" / "home").prepare()
    assert Home(tmp_path / "file" / "home").running() is None


# ── the token ────────────────────────────────────────────────────────────────────────────────────


def test_the_token_is_made_once_and_is_ours_alone(home):
    token = home.token()
    assert home.token() == home.read_token() == token
    assert home.token_file.read_text() == f"{token}\n"
    assert mode(home.token_file) == 0o600
    assert len(token) >= 43, "256 bits"
    assert sorted(path.name for path in home.folder.iterdir()) == ["logs", "run", "token"]


def test_two_homes_have_two_tokens(home, tmp_path):
    assert home.token() != Home(tmp_path / "other").token()


def test_however_many_make_it_at_once_there_is_one_token(home):
    home.prepare()
    begin = threading.Barrier(16)
    found = []

    def make() -> None:
        begin.wait(PATIENCE)
        found.append(home.token())

    makers = [threading.Thread(target=make) for _ in range(16)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join(PATIENCE)
    assert len(found) == 16
    assert set(found) == {home.read_token()}
    assert sorted(path.name for path in home.folder.iterdir()) == ["logs", "run", "token"]


def test_a_token_that_others_may_have_read_is_refused_and_not_shown(home):
    token = home.token()
    home.token_file.chmod(0o640)
    with pytest.raises(BadInput) as caught:
        home.token()
    assert token not in f"{caught.value} {caught.value.hint}"
    assert f"rm {home.token_file}" in (caught.value.hint or "")


@pytest.mark.parametrize("text", ["", "short\n", "x" * 40 + " y", "x" * 40 + "\x00", "\xff" * 40])
def test_what_is_no_token_is_refused(home, text):
    home.token()
    home.token_file.write_text(text, encoding="latin-1")
    with pytest.raises(BadInput, match="holds no token"):
        home.token()


# ── who serves it ────────────────────────────────────────────────────────────────────────────────


def test_a_daemon_describes_itself_for_as_long_as_it_serves(home):
    with daemon(home) as process:
        running = home.running()
        assert running is not None
        assert running.description is not None
        assert running.description.url == "http://127.0.0.1:1"
        assert running.description.version == "1.2.3"
        assert running.description.pid == process.pid
        assert running.process is not None
        assert running.process.pid == process.pid
        assert mode(home.description_file) == 0o600
    assert home.running() is None
    assert not home.description_file.exists()


def test_a_second_daemon_is_refused_and_told_who_the_first_is(home):
    with daemon(home) as process, pytest.raises(DaemonRunning) as caught, home.lock():
        pytest.fail("there are two")
    assert f"(http://127.0.0.1:1, process {process.pid})" in caught.value.message
    assert str(home.folder) in caught.value.message
    assert "agor daemon stop" in (caught.value.hint or "")


def test_the_refused_one_leaves_the_description_of_the_first_alone(home):
    with daemon(home):
        before = home.description_file.read_bytes()
        with pytest.raises(DaemonRunning), home.lock():
            pass
        assert home.description_file.read_bytes() == before


def test_one_that_is_still_starting_is_there_and_has_no_description(home):
    with daemon(home, url="") as process:
        running = home.running()
        assert running is not None
        assert running.process is not None
        assert (running.process.pid, running.description) == (process.pid, None)
        with pytest.raises(DaemonRunning, match=rf"\(process {process.pid}\)"), home.lock():
            pass


def test_one_that_serves_no_more_is_ending_until_it_is_gone(home):
    with home.lock():
        running = home.running()
        assert running is not None
        assert not running.ending
        with home.described("http://127.0.0.1:1", "1.2.3"):
            running = home.running()
            assert running is not None
            assert (running.description is None, running.ending) == (False, False)
        running = home.running()
        assert running is not None
        assert (running.description, running.ending) == (None, True)
    assert home.running() is None
    with home.lock():
        running = home.running()
        assert running is not None
        assert not running.ending


def test_what_a_killed_daemon_leaves_behind_is_not_believed(home):
    with daemon(home) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)
    assert home.description_file.exists()
    assert home.running() is None
    # Not by the next one, either, which has not described itself yet.
    with daemon(home, url="") as process:
        assert not home.description_file.exists()


def test_a_description_of_anybody_else_is_not_believed(home):
    with daemon(home, url=""):
        forged = Description(url="http://x", pid=1, version="0", started_at=0, process_start=0)
        home.description_file.write_bytes(msgspec.json.encode(forged))
        running = home.running()
        assert running is not None
        assert running.description is None


@pytest.mark.parametrize("text", [b"", b"{}", b"nonsense", b'{"pid": "x"}'])
def test_files_with_nonsense_in_them_harm_nothing(home, text):
    with daemon(home):
        home.description_file.write_bytes(text)
        assert home.running() is not None
        home.lock_file.write_bytes(text)
        running = home.running()
        assert running is not None
        assert (running.process, running.description) == (None, None)


def test_whoever_only_looks_does_not_keep_a_daemon_from_starting(home):
    home.prepare()
    home.lock_file.touch()
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            home.running()

    lookers = [threading.Thread(target=look) for _ in range(3)]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(20):
            with home.lock():
                pass
    finally:
        stop.set()
        for looker in lookers:
            looker.join(PATIENCE)


def test_the_lock_is_not_inherited_by_what_the_daemon_starts(home):
    with home.lock():
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        assert home.running() is None
        with home.lock():
            pass
    finally:
        child.kill()
        child.wait(PATIENCE)


def test_a_home_that_we_may_not_look_at_is_told(home, monkeypatch):
    home.prepare()
    home.lock_file.touch()

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(AgorError, match="Permission denied"):
        home.running()

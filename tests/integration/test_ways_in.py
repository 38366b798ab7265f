"""The ways in: a socket of its own, one that was handed down, and what is refused, and how."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.daemon_side import daemon
from tests.integration.executor_process import COMMAND, ExecutorProcess, start_binding
from tests.integration.processes import PATIENCE
from tests.integration.wire import request, wire


def answers(path: Path) -> bool:
    with wire(path) as connection:
        connection.send(request(1, "ping"))
        return connection.read()["result"]["pong"] is True


def run(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *arguments]
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        command, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, **more
    )


def leave_stale_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(path))


def test_a_socket_of_its_own_answers_and_is_for_its_user_only(bind):
    executor = bind()
    assert answers(executor.path)
    assert stat.S_IMODE(executor.path.lstat().st_mode) == 0o600


def test_the_installed_command_serves_as_well(launch, socket_path):
    installed = [str(Path(sys.executable).with_name("agor-executor"))]
    executor = launch("--socket", str(socket_path), path=socket_path, command=installed)
    executor.wait_logged("listening")
    assert answers(socket_path)


def test_a_handed_down_socket_is_served_and_its_path_left_to_whoever_made_it(start):
    executor = start()
    assert answers(executor.path)
    executor.send_signal(signal.SIGTERM)
    assert executor.wait_ended() == 0
    assert executor.path.exists()


def test_a_socket_handed_down_as_standard_input_is_served(launch, socket_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(socket_path))
        listener.listen()
        launch("--listen-fd", "0", path=socket_path, stdin=listener.fileno())
    assert answers(socket_path)


@pytest.mark.parametrize("way", ["--socket", "--listen-fd"])
async def test_what_a_task_runs_inherits_no_descriptor_of_the_executor(way, start, bind):
    executor = bind() if way == "--socket" else start()
    async with daemon(executor.path) as side:
        # The last one is the folder that ls itself reads.
        await side.prompt([{"run": ["sh", "-c", "ls /proc/self/fd"]}], task_id="fds")
        assert side.text("fds").split() == ["0", "1", "2", "3"]
        await side.prompt([{"run": ["readlink", "/proc/self/fd/0"]}], task_id="stdin")
        assert side.text("stdin") == "/dev/null\n"


def test_a_second_start_on_a_live_socket_is_refused_and_the_first_goes_on(bind):
    executor = bind()
    second = run("--socket", str(executor.path))
    assert second.returncode == 1
    assert second.stdout == ""
    assert f"another process already serves {executor.path}" in second.stderr
    assert "Choose another path" in second.stderr
    assert "Traceback" not in second.stderr
    assert answers(executor.path)


def test_a_socket_that_a_dead_process_left_is_taken_over(bind, socket_path):
    leave_stale_socket(socket_path)
    executor = bind()
    assert answers(executor.path)


def test_of_many_started_at_once_on_a_stale_socket_one_serves_and_the_others_are_refused(
    launch, socket_path
):
    leave_stale_socket(socket_path)
    started = [launch(how=start_binding, path=socket_path) for _ in range(4)]
    serving: list[ExecutorProcess] = []
    for executor in started:
        try:
            executor.wait_logged("listening")
            serving.append(executor)
        except AssertionError:
            assert executor.wait_ended() == 1
            assert "socket_in_use" in executor.log
    assert len(serving) == 1
    with wire(socket_path) as connection:
        greeting = {"protocol_version": "1.0", "daemon_id": "d"}
        connection.send(request(1, "initialize", greeting))
        assert connection.read()["result"]["pid"] == serving[0].pid


def test_a_file_that_is_no_socket_is_left_alone(socket_path):
    socket_path.write_text("precious")
    refused = run("--socket", str(socket_path))
    assert refused.returncode == 1
    assert "not a socket" in refused.stderr
    assert socket_path.read_text() == "precious"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/no/such/folder/executor.sock", "/no/such/folder"),
        ("/tmp/" + "x" * 200, "too long"),
        ("/proc/executor.sock", "cannot bind"),
    ],
)
def test_a_path_that_cannot_be_bound_is_refused_with_the_reason(path, why):
    refused = run("--socket", path)
    assert refused.returncode == 1
    assert why in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("descriptor", ["77", "0", "1", "-1", str(2**40)])
def test_a_descriptor_that_is_no_listening_socket_is_refused_with_the_reason(descriptor):
    refused = run("--listen-fd", descriptor)
    assert refused.returncode in (1, 2)
    assert descriptor in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_socket_that_does_not_listen_is_refused_with_the_reason():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        fd = theirs.fileno()
        refused = run("--listen-fd", str(fd), pass_fds=(fd,))
    assert refused.returncode == 1
    assert f"descriptor {fd} is not a listening Unix socket" in refused.stderr


def test_a_path_in_the_working_folder_needs_no_folder_in_front(launch, tmp_path):
    command = ["sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", str(tmp_path), *COMMAND]
    path = tmp_path / "here.sock"
    executor = launch("--socket", "here.sock", path=path, command=command)
    executor.wait_logged("listening")
    assert answers(path)


def test_an_executor_that_ends_leaves_a_socket_alone_that_is_no_longer_its_own(bind):
    executor = bind()
    executor.path.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(executor.path))
        other.listen()
        executor.send_signal(signal.SIGTERM)
        assert executor.wait_ended() == 0
        assert os.path.lexists(executor.path)

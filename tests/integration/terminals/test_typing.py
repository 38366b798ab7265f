"""A terminal as somebody at it knows it: keys, jobs, the window, and the end of the shell."""

from __future__ import annotations

import pytest

from agor.errors import RpcError
from tests.contract.waiting import until
from tests.integration.terminals.screens import looking_at, python_script

#: Says so once it runs, and stays. Its words are not what was typed.
STAY = "sh -c 'echo u''p; exec sleep 1000'\n"
WINDOW = """
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
while True:
    print(*os.get_terminal_size(0), flush=True)
    signal.sigwait([signal.SIGWINCH])
"""


async def test_keys_are_echoed_as_they_are_typed(side, tmp_path):
    screen = await side.run(tmp_path, "stty echo; echo echoed; exec cat")
    await screen.sees("echoed\n")
    for key in b"hello":
        await screen.type(bytes([key]))
        assert await screen.sees(bytes([key])) == b""
    await screen.type("\n")
    await screen.sees("\nhello\n")


async def test_a_shell_is_one_that_somebody_logged_in_to(side, tmp_path):
    (tmp_path / ".profile").write_text("echo 'as at the' 'door'\n")
    screen = await side.open(tmp_path)
    await screen.sees("as at the door")
    await screen.type("echo [$0] [$(pwd)] [$(tty)] [$TERM] [$SHELL]\n")
    await screen.sees(f"[-sh] [{tmp_path}] [/dev/pts/")
    await screen.sees("] [xterm-256color] [/usr/bin/sh]")


async def test_ctrl_c_interrupts_the_program_and_not_the_shell(side, tmp_path):
    screen = await side.open(tmp_path)
    await screen.type(STAY)
    await screen.sees("up\r\n")
    await screen.type("\x03")
    await screen.type("echo co''de $?\n")
    await screen.sees("code 130\r\n")


async def test_jobs_can_be_stopped_and_brought_back(side, tmp_path):
    screen = await side.open(tmp_path, "bash")
    await screen.type("sh -c 'echo u''p; exec cat'\n")
    await screen.sees("up\r\n")
    await screen.type("\x1a")
    await screen.sees("Stopped")
    await screen.type("jobs; echo liste''d\n")
    assert b"Stopped" in await screen.sees("listed\r\n")
    await screen.type("fg\n")
    await screen.sees("exec cat'\r\n")
    await screen.type("to the job\n")
    await screen.sees("to the job\r\nto the job\r\n")
    await screen.type("\x04")
    await screen.type("echo co''de $?; jobs\n")
    await screen.sees("code 0\r\n")


async def test_a_program_sees_the_window_and_hears_when_it_changes(side, tmp_path):
    screen = await side.open(tmp_path, python_script(tmp_path, WINDOW), cols=97, rows=31)
    await screen.sees("97 31\r\n")
    await screen.resize(132, 50)
    assert await screen.sees("132 50\r\n") == b""
    again = await screen.attach()
    assert (again.cols, again.rows) == (132, 50)


async def test_any_bytes_pass_unchanged_both_ways(side, tmp_path):
    screen = await side.run(tmp_path, "stty raw; echo raw; exec cat")
    await screen.sees("raw\n")
    every = bytes(range(256)) * 8
    await screen.type(every)
    await screen.until_next(screen.begin + len(every))
    assert screen.seen == every


async def test_an_exit_code_is_told_after_all_that_was_printed(side, tmp_path):
    screen = await side.open(tmp_path)
    await screen.type("echo go''od bye; exit 7\n")
    assert await screen.ended() == 7
    await screen.sees("good bye\r\n")


async def test_who_is_killed_is_told_with_the_signal(side, tmp_path):
    screen = await side.open(tmp_path)
    await screen.type("kill -KILL $$\n")
    assert await screen.ended() == -9


async def test_an_ended_terminal_can_be_looked_at_and_not_typed_into(side, tmp_path):
    screen = await side.run(tmp_path, "read x; echo last words; exit 3")
    await screen.type("\n")
    assert await screen.ended() == 3
    again = await screen.attach()
    assert (again.data, again.exit_code) == (b"ready\nlast words\n", 3)
    await screen.resize(10, 10)
    with pytest.raises(RpcError) as refused:
        await screen.type("hello")
    assert refused.value.code == "terminal_ended"
    (info,) = (await side.greet()).terminals
    assert (info.terminal_id, info.exit_code) == (screen.id, 3)


async def test_a_background_job_that_holds_the_terminal_does_not_hold_up_the_end(
    executor, side, tmp_path
):
    """It would be waited for until it ends, which may be never."""
    screen = await side.open(tmp_path)
    await screen.type("sleep 1000 & exit 5\n")
    assert await screen.ended() == 5
    await until(lambda: len(executor.offspring()) == 1)
    await screen.close()
    assert executor.offspring() == set()


async def test_a_background_job_that_prints_for_ever_does_not_hold_up_the_end(side, tmp_path):
    screen = await side.run(tmp_path, "read x; echo mine; yes & exit 6")
    await screen.type("\n")
    assert await screen.ended() == 6
    await screen.sees("mine\n")
    await screen.close()


async def test_the_last_words_of_a_shell_are_never_lost(side, tmp_path):
    words = b",".join(b"%d" % number for number in range(1, 3001)) + b"\n"
    for _ in range(25):
        screen = await side.run(tmp_path, "read x; seq -s, 1 3000; exit 0")
        await screen.type("\n")
        await screen.ended()
        assert screen.seen == words
        await screen.close()


async def test_what_is_typed_and_printed_is_in_no_log(start, tmp_path):
    executor = start("--log-level", "debug", "--log-format", "json")
    async with looking_at(executor) as side:
        screen = await side.open(tmp_path, env={"CANARY": "canary-in-env"})
        await screen.type("echo canary''-typed\n")
        await screen.sees("canary-typed\r\n")
        await screen.attach()
        await screen.type("exit\n")
        await screen.ended()
        with pytest.raises(RpcError):
            await screen.type("canary-too-late")
        await screen.close()
        await side.shutdown(0)
    await executor.ended()
    assert screen.id in executor.log
    assert "canary" not in executor.log

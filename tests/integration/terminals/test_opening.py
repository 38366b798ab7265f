"""Opening terminals: once each, so many and no more, in the right place, with nothing of ours."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
from pathlib import Path

import pytest

from agor.errors import InvalidParams, Overloaded, RpcError, UnknownTask
from agor.executor.terminals.desk import MAX_TERMINALS
from agor.protocol.methods import SPAWN_TERMINAL
from agor.protocol.terminals import SpawnTerminalParams
from tests.contract.waiting import until
from tests.integration.executor_process import start_command
from tests.integration.processes import open_files
from tests.integration.terminals.screens import looking_at, python_script, shell_script
from tests.integration.wire import request, wire

CANARY = "canary-of-the-executor-4711"
#: Signals 32 and 33, in a mask of them.
_LIBRARYS_OWN = 0b11 << 31


async def test_asked_twice_with_one_id_there_is_one_shell(executor, side, tmp_path):
    program = shell_script(tmp_path, "exec cat")
    both = [side.spawn(tmp_path, program, "one", cols=80 + number) for number in range(2)]
    first, second = await asyncio.gather(*both)
    third = await side.spawn(tmp_path, program, "one")
    assert first == second == third
    assert (first.terminal_id, first.shell) == ("one", program)
    screen = side.screen("one")
    await screen.attach()
    await screen.sees("ready\n")
    await until(lambda: executor.offspring() == {first.pid})
    assert [one.terminal_id for one in (await side.greet()).terminals] == ["one"]


async def test_a_terminal_that_nobody_waited_for_is_there_for_who_comes_back(executor, tmp_path):
    params = {"terminal_id": "one", "cwd": str(tmp_path), "shell": "cat"}
    with wire(executor.path) as connection:
        connection.send(request(1, "spawn_terminal", params))
    await executor.logged("terminal_opened")
    async with looking_at(executor) as side:
        (info,) = (await side.greet()).terminals
        assert (await side.spawn(tmp_path, terminal_id="one")).pid == info.pid


async def test_one_more_than_there_may_be_is_refused_until_one_is_closed(side, tmp_path):
    many = [await side.open(tmp_path) for _ in range(MAX_TERMINALS)]
    with pytest.raises(Overloaded, match="8 terminals"):
        await side.spawn(tmp_path, terminal_id="ninth")
    await many[0].close()
    assert (await side.spawn(tmp_path, terminal_id="ninth")).pid


async def test_many_asked_for_at_once_are_bounded_too(executor, side, tmp_path):
    spawning = [side.spawn(tmp_path) for _ in range(MAX_TERMINALS + 4)]
    results = await asyncio.gather(*spawning, return_exceptions=True)
    assert sum(isinstance(result, Overloaded) for result in results) == 4
    assert len((await side.greet()).terminals) == MAX_TERMINALS


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"cwd": "/nowhere/at/all"}, "params.cwd"),
        ({"cwd": "/etc/passwd"}, "params.cwd"),
        ({"cwd": "/" + "x" * 5000}, "params.cwd"),
        ({"cwd": "/\0"}, "params.cwd"),
        ({"shell": "no-such-shell"}, "params.shell"),
        ({"shell": "/etc"}, "params.shell"),
        ({"shell": "/etc/passwd"}, "params.shell"),
        ({"shell": ""}, "params.shell"),
        ({"shell": "sh\0"}, "params.shell"),
        ({"env": {"A=B": "1"}}, "params.env"),
        ({"env": {"A": "\0"}}, "params.env"),
    ],
    ids=repr,
)
async def test_what_cannot_be_opened_is_refused_by_name(executor, side, tmp_path, params, named):
    with pytest.raises(InvalidParams, match=named):
        await side.spawn(**({"folder": tmp_path} | params))
    assert (await side.greet()).terminals == []
    assert executor.offspring() == set()


async def test_a_program_that_the_kernel_refuses_is_told_of(executor, side, tmp_path):
    broken = tmp_path / "broken"
    broken.write_bytes(b"no program")
    broken.chmod(0o700)
    files = open_files(executor.pid)
    with pytest.raises(
        InvalidParams, match=r"params\.shell: .*broken.* cannot be run: Exec format"
    ):
        await side.spawn(tmp_path, str(broken))
    assert open_files(executor.pid) == files
    executor.wait_childless()


async def test_a_shell_is_found_by_name_where_the_terminal_has_its_programs(side, tmp_path):
    own = tmp_path / "own-shell"
    own.write_text("#!/bin/sh\necho it is me\n")
    own.chmod(0o700)
    screen = await side.open(tmp_path, "own-shell", env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    await screen.sees("it is me")


async def test_without_a_name_it_is_the_persons_own(side, tmp_path):
    params = SpawnTerminalParams(terminal_id="own", cwd=str(tmp_path), env={"HOME": str(tmp_path)})
    opened = await side.ask(SPAWN_TERMINAL, params)
    assert opened.shell == pwd.getpwuid(os.getuid()).pw_shell


async def test_nothing_of_the_executor_is_in_the_shell_but_three_descriptors(
    launch, socket_path, tmp_path, monkeypatch
):
    monkeypatch.setenv("SECRET_OF_THE_DAEMON", CANARY)
    monkeypatch.setenv("AGOR_MASTER_KEY", CANARY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", CANARY)
    # Inherited by the executor, and by nobody else.
    with Path(os.devnull).open() as extra:
        executor = launch(
            "--socket", str(socket_path), how=start_command, path=socket_path,
            pass_fds=(extra.fileno(),),
        )  # fmt: skip
        executor.wait_logged("listening")
    async with looking_at(executor) as side:
        show = (
            "print(sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:-1])\n"
            "print(*sorted(os.environ.items()), sep='\\n')\n"
            "print('end')"
        )
        screen = await side.open(
            tmp_path, python_script(tmp_path, show), env={"GIVEN": "as asked", "TERM": "vt100"}
        )
        seen = (await screen.sees("end\r\n")).decode()
    assert seen.startswith("[0, 1, 2]\r\n")
    assert CANARY not in seen
    assert "('GIVEN', 'as asked')" in seen
    assert "('TERM', 'vt100')" in seen
    assert "('SHELL', '" in seen
    names = [line.split("'")[1] for line in seen.splitlines() if line.startswith("('")]
    assert [name for name in names if name.startswith("AGOR_")] == ["AGOR_TEST_MARK"]


async def test_no_signal_is_ignored_or_held_back(side, tmp_path):
    """An interpreter ignores some; a shell that began so could not be hung up or piped from."""
    screen = await side.run(tmp_path, "grep -E 'SigBlk|SigIgn' /proc/self/status; echo end")
    masks = re.findall(rb"Sig(?:Blk|Ign):\t([0-9a-f]{16})", await screen.sees("end\n"))
    # Two belong to the C library: it changes them for nobody, and what they were before stays.
    assert [int(mask, 16) & ~_LIBRARYS_OWN for mask in masks] == [0, 0]


async def test_a_terminal_that_is_not_there_is_said_so(side):
    screen = side.screen("nobody")
    for call in (screen.attach(), screen.type("x"), screen.resize(1, 1)):
        with pytest.raises(UnknownTask) as refused:
            await call
        assert refused.value.code == "unknown_terminal"
        assert "'nobody'" in refused.value.message


async def test_while_the_executor_ends_none_is_opened(executor, side, tmp_path):
    side.start([{"delay_ms": 10**7}], "task")
    await side.until(lambda: side.messages["task"])
    ending = asyncio.create_task(side.shutdown(10**7))
    await executor.logged("shutting_down")
    with pytest.raises(RpcError) as refused:
        await side.spawn(tmp_path)
    assert refused.value.code == "shutting_down"
    await side.stop("task")
    await ending


async def test_terminals_are_promised(side):
    assert "terminals" in (await side.greet()).capabilities


async def test_opening_and_closing_leaves_no_descriptor(executor, side, tmp_path: Path):
    async def once() -> None:
        screen = await side.open(tmp_path)
        await screen.close()

    await once()
    before = open_files(executor.pid)
    for _ in range(12):
        await once()
    assert open_files(executor.pid) == before

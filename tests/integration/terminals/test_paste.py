"""What is typed into a program that does not read: it waits, in order and bounded, alone."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
from pathlib import Path

import pytest

from agor.errors import Cancelled, Overloaded, RpcError
from agor.executor.terminals.keys import MAX_CALLS
from agor.protocol.methods import TERMINAL_INPUT
from agor.protocol.terminals import MAX_INPUT, TerminalInputParams
from tests.contract.raw_end import notice, request
from tests.integration.terminals.screens import Onlooker, Screen, python_script

#: Reads nothing until somebody opens the pipe; then to the full stop, and tells what it was.
READS_LATER = """
tty.setraw(0)
print("ready", os.getpid(), flush=True)
open("begin").read()
got = b""
while not got.endswith(b"."):
    got += os.read(0, 65536)
import hashlib
print("got", len(got), hashlib.sha256(got).hexdigest(), flush=True)
"""
#: More than the kernel takes for a program that does not read.
TOO_MUCH = 4 * MAX_INPUT


@pytest.fixture
def begin(tmp_path: Path) -> Path:
    """The pipe that has the program read."""
    path = tmp_path / "begin"
    os.mkfifo(path)
    return path


async def deaf(side: Onlooker, folder: Path) -> Screen:
    """Open a terminal whose program does not read yet."""
    screen = await side.open(folder, python_script(folder, READS_LATER))
    await _pid_in(screen)
    return screen


def pasted(screen: Screen, text: bytes) -> list[asyncio.Task[None]]:
    """Paste, in pieces as large as they may be."""
    pieces = (text[start : start + MAX_INPUT] for start in range(0, len(text), MAX_INPUT))
    return [asyncio.create_task(screen.type(piece)) for piece in pieces]


async def test_a_huge_paste_waits_for_the_program_and_arrives_whole(side, tmp_path, begin):
    screen = await deaf(side, tmp_path)
    text = bytes(number * 7 % 251 for number in range(12 * MAX_INPUT)).replace(b".", b",")
    typing = pasted(screen, text)
    await side.settle()
    assert not typing[-1].done()
    # Others are not held up: neither the connection nor what else is asked of this terminal.
    await screen.resize(100, 40)
    other = await side.run(tmp_path, "exec cat")
    await other.type("hello\n")
    await other.sees("hello\n")
    await asyncio.to_thread(begin.write_text, "now")
    await asyncio.gather(*typing)
    await screen.type(".")
    whole = text + b"."
    await screen.sees(f"got {len(whole)} {hashlib.sha256(whole).hexdigest()}")


async def test_more_than_may_wait_is_refused_and_what_waits_is_not_lost(side, tmp_path, begin):
    screen = await deaf(side, tmp_path)
    text = b"x" * TOO_MUCH
    typing = pasted(screen, text)
    # As many small ones as may wait, and more: their number is bounded as well.
    typing += [asyncio.create_task(screen.type(b"y")) for _ in range(MAX_CALLS)]
    with pytest.raises(Overloaded, match="does not read"):
        await typing[-1]
    assert sum(not one.done() for one in typing) == MAX_CALLS
    await asyncio.to_thread(begin.write_text, "now")
    answers = await asyncio.gather(*typing, return_exceptions=True)
    refused = sum(isinstance(answer, Overloaded) for answer in answers)
    assert answers == [None] * (len(answers) - refused) + answers[-refused:]
    await screen.type(".")
    whole = text + b"y" * (MAX_CALLS - refused) + b"."
    await screen.sees(f"got {len(whole)} {hashlib.sha256(whole).hexdigest()}")


async def test_what_somebody_no_longer_wants_typed_is_not(side, tmp_path, begin):
    screen = await deaf(side, tmp_path)
    typing = pasted(screen, b"x" * TOO_MUCH)
    params = TerminalInputParams(terminal_id=screen.id, data=b"unwanted")
    unwanted = asyncio.create_task(side.peer.call(TERMINAL_INPUT, params))
    full_stop = asyncio.create_task(screen.type(b"."))
    await side.settle()
    unwanted.cancel()
    with pytest.raises((asyncio.CancelledError, Cancelled)):
        await unwanted
    await side.settle()
    await asyncio.to_thread(begin.write_text, "now")
    await asyncio.gather(*typing, full_stop)
    whole = b"x" * TOO_MUCH + b"."
    await screen.sees(f"got {len(whole)} {hashlib.sha256(whole).hexdigest()}")


async def test_what_is_called_off_in_the_same_breath_is_not_typed(side, tmp_path, begin):
    screen = await deaf(side, tmp_path)
    typing = pasted(screen, b"x" * TOO_MUCH)
    await side.settle()
    unwanted = request("unwanted", "terminal_input", terminal_id=screen.id, data="dW53YW50ZWQ=")
    both = unwanted, notice("$/cancelRequest", id="unwanted")
    side.peer.send_line(b"".join(json.dumps(one).encode() + b"\n" for one in both))
    await side.settle()
    await asyncio.to_thread(begin.write_text, "now")
    await asyncio.gather(*typing)
    await screen.type(".")
    whole = b"x" * TOO_MUCH + b"."
    await screen.sees(f"got {len(whole)} {hashlib.sha256(whole).hexdigest()}")


@pytest.mark.parametrize("how", ["closed", "killed"])
async def test_who_waits_for_a_terminal_that_ends_is_told(side, tmp_path, begin, how):
    screen = await side.open(tmp_path, python_script(tmp_path, READS_LATER))
    pid = await _pid_in(screen)
    typing = pasted(screen, b"x" * TOO_MUCH)
    await side.settle()
    if how == "closed":
        await screen.close()
    else:
        os.kill(pid, signal.SIGKILL)
        assert await screen.ended() == -9
    with pytest.raises(RpcError) as told:
        await typing[-1]
    assert told.value.code == "terminal_ended"
    await asyncio.gather(*typing, return_exceptions=True)


async def _pid_in(screen: Screen) -> int:
    await screen.sees("ready ")
    return int(await screen.sees("\n"))

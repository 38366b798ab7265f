"""Clients of a terminal that read slowly, or not at all: they slow the program, within bounds."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agor.daemon.api.settings import ApiSettings
from tests.api.feeds import small_socket
from tests.api.serving import Served, serving
from tests.api.terminals import Screen, attached, open_terminal, row
from tests.contract.waiting import until

#: More than every buffer between a program and a client who does not read can hold.
MANY = 16 * 1024 * 1024
#: Far more than they hold.
HELD = 4 * 1024 * 1024
LINE = b"0123456789abcde\n"
#: Prints so much, and notes after every piece how much that was.
PRINTER = """
import os, sys
piece, noted = b"0123456789abcde\\n" * 4096, os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
for number in range(int(sys.argv[2]) // len(piece)):
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
    os.pwrite(noted, b"%012d" % ((number + 1) * len(piece)), 0)
"""


#: Seconds, for who does not read.
STALL = 0.5


@pytest.fixture
async def strict(tmp_path: Path) -> AsyncIterator[Served]:
    settings = ApiSettings(terminal_stall_timeout=STALL, farewell_timeout=20.0)
    async with serving(tmp_path, settings=settings) as one:
        yield one


class Printer:
    """A program in a terminal that prints much."""

    def __init__(self, folder: Path) -> None:
        self._program = folder / "printer.py"
        self._program.write_text(PRINTER)
        self._noted = folder / "noted"

    async def begin(self, screen: Screen) -> None:
        # Raw: the terminal would make two bytes of a line's end.
        await screen.run("stty raw -echo")
        await screen.type(f"{sys.executable} {self._program} {self._noted} {MANY}\n")
        await screen.until(LINE)

    @property
    def printed(self) -> int:
        return int(self._noted.read_bytes() or b"0")


async def test_who_reads_slowly_slows_the_program_and_is_not_cut_off(strict: Served):
    terminal_id = await open_terminal(strict, await strict.new_session())
    printer = Printer(strict.folder)
    loop = asyncio.get_running_loop()
    async with attached(strict, terminal_id, sock=small_socket(strict), max_queue=1) as slow:
        await printer.begin(slow)
        # All the while there is more than it reads: it is behind for longer than one may stall.
        enough = loop.time() + 3 * STALL
        while loop.time() < enough:
            await slow.frame()
            await asyncio.sleep(STALL / 20)
        assert printer.printed - len(slow.seen) < HELD, "the program waits for the reader"
        assert printer.printed < MANY
        while len(slow.seen) < MANY:
            await slow.frame()
            assert printer.printed - len(slow.seen) < HELD
        assert strict.count("agor_terminal_cut_off_total") == 0
        first = slow.seen.index(LINE)
        assert slow.seen[first : first + MANY] == LINE * (MANY // len(LINE))


async def test_who_does_not_read_is_told_to_come_back_and_the_others_go_on(strict: Served):
    terminal_id = await open_terminal(strict, await strict.new_session())
    printer = Printer(strict.folder)
    stuck_end = small_socket(strict)
    async with (
        attached(strict, terminal_id) as reader,
        attached(strict, terminal_id, sock=stuck_end, max_queue=1) as stuck,
    ):
        await printer.begin(reader)
        while len(reader.seen) < MANY:
            await reader.frame()
        assert strict.count("agor_terminal_cut_off_total") == 1, "or it would wait for ever"
        closed = await stuck.to_its_end()
        assert closed is not None
        assert closed.code == 1013
        assert closed.reason.endswith(f"come back with after={stuck.end}")
        assert reader.seen[stuck.begin :].startswith(stuck.seen)
        assert len(stuck.seen) < MANY
    await until(lambda: strict.count("agor_terminal_clients") == 0)
    assert (await row(strict, terminal_id))["status"] == "open"


async def test_while_nobody_looks_the_program_does_not_wait(strict: Served):
    terminal_id = await open_terminal(strict, await strict.new_session())
    printer = Printer(strict.folder)
    async with attached(strict, terminal_id) as screen:
        await printer.begin(screen)
    await until(lambda: printer.printed == MANY)

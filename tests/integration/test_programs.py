"""The programs of agents: what they leave behind ends with them, wherever it went."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from agor.agents.programs import Program
from tests.integration.processes import PATIENCE, Mark

#: Leaves one in a session of its own, and one whose parents are all gone; both say so.
_STAYS = "setsid bash -c 'echo here; sleep 1000; echo there'"
_LEAVES = f"{_STAYS} & ({_STAYS} &); cat"


@pytest.mark.parametrize("killed", [False, True])
async def test_what_left_the_group_of_a_program_ends_with_it(tmp_path: Path, killed: bool):
    mark = Mark()
    program = await Program.start(
        ["bash", "-c", _LEAVES], cwd=str(tmp_path), env=mark.env, name="a program"
    )
    try:
        async with asyncio.timeout(PATIENCE):
            assert [await program.stdout.readline() for _ in range(2)] == [b"here\n"] * 2
        if killed:
            os.kill(program.pid, signal.SIGKILL)
            await program.wait()
        await program.stop()
        await asyncio.to_thread(mark.wait_gone)
    finally:
        await program.stop()
        mark.end_all()

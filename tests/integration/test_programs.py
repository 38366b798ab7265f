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


#: Writes down what it knows when it is told to end, which takes it a moment.
_WRITES = (
    "trap 'sleep 0.2; echo all of it > record; exit' TERM; echo here; while :; do sleep 0.05; done"
)
_STUBBORN = "trap '' TERM; echo here; while :; do sleep 0.05; done"


async def test_what_a_killed_program_leaves_in_its_group_may_end_by_itself(tmp_path: Path):
    """An adapter that is killed has the agent itself below it, which has a conversation to save."""
    await _end_below_a_killed_program(tmp_path, _WRITES)
    assert (tmp_path / "record").read_text() == "all of it\n"


async def test_what_a_killed_program_leaves_in_its_group_is_ended_if_it_will_not(tmp_path: Path):
    await _end_below_a_killed_program(tmp_path, _STUBBORN)


async def _end_below_a_killed_program(folder: Path, below: str) -> None:
    mark = Mark()
    program = await Program.start(
        ["bash", "-c", f'bash -c "{below}"; cat'], cwd=str(folder), env=mark.env, name="a program"
    )
    try:
        async with asyncio.timeout(PATIENCE):
            assert await program.stdout.readline() == b"here\n"
        os.kill(program.pid, signal.SIGKILL)
        await program.wait()
        await program.stop()
        await asyncio.to_thread(mark.wait_gone)
    finally:
        await program.stop()
        mark.end_all()


async def test_the_last_words_of_a_program_are_told_without_its_colours(tmp_path: Path):
    program = await Program.start(
        ["bash", "-c", r"printf '\033[1;31merror\033[0m: no such thing' >&2; exit 3"],
        cwd=str(tmp_path),
        env={},
        name="a program",
    )
    try:
        async with asyncio.timeout(PATIENCE):
            ended = await program.ended()
        assert ended.message == "a program ended (exit code 3): error: no such thing"
    finally:
        await program.stop()

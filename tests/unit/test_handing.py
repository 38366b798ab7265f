"""A secret that is handed to a program: it arrives whole, and nobody else can have it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
import uvloop

from agor.agents.environment import program_environment
from agor.agents.handing import Handed
from agor.agents.programs import Program

PATIENCE = 20.0


async def start(command: str, *handed: Handed) -> Program:
    program = await Program.start(
        ["sh", "-c", command],
        cwd="/",
        env=program_environment(),
        name="a shell",
        descriptors=[each.descriptor for each in handed],
    )
    for each in handed:
        await each.pour()
        each.close()
    return program


def descriptors() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


async def read_all(program: Program) -> bytes:
    async with asyncio.timeout(PATIENCE):
        return await program.stdout.read()


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("size", [0, 10, 1_000_000])
def test_it_arrives_whole_and_once(loop, size: int):
    async def hand() -> None:
        data = os.urandom(size)
        handed = Handed(data)
        program = await start(f"cat {handed.path}; cat {handed.path}", handed)
        try:
            assert await read_all(program) == data
        finally:
            await program.stop()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(hand())


async def test_who_does_not_read_it_keeps_nobody_waiting():
    handed = Handed(bytes(1_000_000))
    program = await start("sleep 1000", handed)
    await asyncio.wait_for(program.stop(), PATIENCE)


async def test_nothing_of_it_stays_open_with_us():
    before = descriptors()
    handed = Handed(b"secret")
    program = await start(f"cat {handed.path}", handed)
    await read_all(program)
    await program.stop()
    assert descriptors() <= before


async def test_one_that_is_never_handed_over_is_closed():
    before = descriptors()
    handed = Handed(b"secret")
    handed.close()
    handed.close()
    assert descriptors() == before
    assert "secret" not in repr(handed)


async def test_a_program_has_no_other_descriptor_of_ours(tmp_path: Path):
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        handed = Handed(b"secret")
        program = await start("ls -l /proc/self/fd", handed)
        try:
            assert str(tmp_path).encode() not in await read_all(program)
        finally:
            await program.stop()

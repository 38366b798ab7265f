"""What an agent's program needs on disk goes with its executor, whoever is killed first."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.contract.waiting import until
from tests.integration.pool.side import PATIENCE, Side, claim, pool_in, prompt, soon

from agor.agents.scratch import ScratchFolder, remove_abandoned
from agor.daemon.pool.pool import Pool
from agor.execution import ExecutionEnvironment
from agor.linux import is_alive, process_of
from agor.protocol.launching import Family, Process
from agor.protocol.methods import GetApiKeyParams, GetApiKeyResult

#: Stands in for Gemini CLI: reports which folder it was given and who it is, and never answers.
PROGRAM = """#!/bin/sh
echo "$GEMINI_CLI_HOME $$" > "$HOME/given.new"
mv "$HOME/given.new" "$HOME/given"
exec sleep 1000
"""
#: Makes a folder, tells where, and waits.
MAKE_FOLDER = """
from agor.agents.scratch import ScratchFolder
import signal
made = ScratchFolder("theirs")
print(made.path, flush=True)
signal.pause()
"""


class KeyedSide(Side):
    """A host that has a key for every agent."""

    async def get_api_key(self, _: ExecutionEnvironment, __: GetApiKeyParams) -> GetApiKeyResult:
        return GetApiKeyResult(api_key="made up")


@pytest.fixture
def home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = folder / "home"
    made.mkdir()
    monkeypatch.setenv("HOME", str(made))
    program = folder / "agents" / "bin" / "gemini"
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM)
    program.chmod(0o755)
    return made


@asynccontextmanager
async def working_gemini(
    folder: Path, *, drain: bool = True
) -> AsyncIterator[tuple[Pool, KeyedSide, Path]]:
    """Open a pool with an executor in which Gemini works; gives the folder that it works with."""
    side = KeyedSide()
    async with pool_in(folder, side, drain=drain, agents_folder=folder / "agents") as (pool, _):
        environment = await soon(pool.acquire(claim("s")))
        params = prompt("x", agentic_tool="gemini", cwd=str(folder))
        task = asyncio.create_task(environment.execute_prompt(params))
        given = folder / "home" / "given"
        await until(given.exists, PATIENCE)
        path, _, pid = given.read_text().partition(" ")
        made = Path(path)
        assert made.is_dir()
        assert process_of(int(pid)) is not None
        yield pool, side, made
    if drain:
        await until(lambda: not process_of(int(pid)))
    await asyncio.wait((task,))


def family_of(pool: Pool) -> Family:
    (found,) = [each for each in pool.executors() if each.claim.session_id == "s"]
    assert found._family is not None
    return found._family


async def launcher_of(pool: Pool) -> Process:
    (link,) = pool._parts.launchers._links.values()
    return (await link.greet(PATIENCE)).process


def kill(*processes: Process) -> None:
    for process in processes:
        os.kill(process.pid, signal.SIGKILL)


async def test_a_session_that_ends_in_order_leaves_no_folder(folder: Path, home: Path):
    async with working_gemini(folder) as (_, _, made):
        pass
    assert not made.exists()


@pytest.mark.parametrize("victims", ["executor", "keeper", "keeper executor"])
async def test_an_executor_that_is_killed_leaves_no_folder(folder: Path, home: Path, victims: str):
    async with working_gemini(folder) as (pool, side, made):
        family = family_of(pool)
        kill(*(getattr(family, name) for name in victims.split()))
        await side.until(lambda: side.endings)
        await until(lambda: not made.exists(), PATIENCE)


@pytest.mark.parametrize("victims", ["executor", "keeper executor"])
async def test_without_a_launcher_an_executor_that_is_killed_leaves_no_folder(
    folder: Path, home: Path, victims: str
):
    async with working_gemini(folder) as (pool, side, made):
        family = family_of(pool)
        kill(await launcher_of(pool), *(getattr(family, name) for name in victims.split()))
        await side.until(lambda: side.endings)
        await until(lambda: not made.exists(), PATIENCE)


async def test_what_is_left_while_nobody_is_there_goes_with_the_next_start(
    folder: Path, home: Path
):
    async with working_gemini(folder, drain=False) as (pool, _, made):
        family, launcher = family_of(pool), await launcher_of(pool)
        program = process_of(int((home / "given").read_text().split()[1]))
        assert program is not None
    kill(launcher, family.keeper, family.executor)
    await until(lambda: not any(map(is_alive, (launcher, family.keeper, family.executor))))
    assert made.exists()
    assert is_alive(program)
    async with pool_in(folder, KeyedSide(), agents_folder=folder / "agents") as (pool, _):
        await soon(pool.acquire(claim("next")))
        await until(lambda: not made.exists(), PATIENCE)
        assert not is_alive(program)


async def test_folders_of_processes_that_live_stay(folder: Path, home: Path):
    ours = ScratchFolder("ours")
    (ours.path / "file").write_text("needed")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", MAKE_FOLDER, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    theirs = Path((await soon(process.stdout.readline())).decode().strip())
    try:
        remove_abandoned()
        assert (ours.path / "file").read_text() == "needed"
        assert theirs.is_dir()
    finally:
        process.kill()
        await soon(process.wait())
    remove_abandoned()
    assert not theirs.exists()
    assert ours.path.is_dir()
    ours.remove()
    ours.remove()
    assert list(ours.path.parent.iterdir()) == []

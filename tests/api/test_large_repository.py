"""A repository with fifty thousand files: it works, within bounds, and nobody waits for it."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.repositories import ask, git, new_repository, registered
from tests.api.serving import Served

FILES = 50_000


def large_repository(folder: Path) -> Path:
    """Make a repository with many files, in many folders."""
    new_repository(folder, commit=False)
    lines = ["blob", "mark :1", "data 2", "x", ""]
    lines += ["commit refs/heads/main", "committer A <a@a> 1 +0000", "data 4", "many"]
    lines += [f"M 100644 :1 d{n % 100}/f{n}" for n in range(FILES)]
    given = "\n".join(lines) + "\n"
    subprocess.run(
        ["git", "fast-import", "--quiet"], cwd=folder, input=given.encode(), check=True, timeout=60
    )
    return folder


async def while_others_ask(served: Served, work: Awaitable[Any]) -> Any:
    """Wait for something; meanwhile others are answered."""
    task = asyncio.ensure_future(work)
    answered = 0
    while not task.done():
        assert (await served.ask.get("/sessions")).status_code == 200
        answered += 1
    assert answered >= 3
    return task.result()


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, if there is room: a busy disk takes minutes to make so many files."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or shutil.disk_usage(memory).free < 2 * 1024**3:
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="agor-", dir=memory))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.timeout(300)
async def test_fifty_thousand_files_work_and_block_nobody(served: Served, tmp_path: Path) -> None:
    repo_id = await registered(served, large_repository(tmp_path / "large"))
    made = await while_others_ask(
        served, ask(served, "POST", f"/repos/{repo_id}/worktrees", 201, name="w")
    )
    at, folder = f"/worktrees/{made['worktree_id']}", Path(made["path"])
    details = await while_others_ask(served, ask(served, "GET", at, 200))
    assert (details["state"]["changed"], details["state"]["untracked"]) == (0, 0)
    assert details["state"]["disk_bytes"] >= FILES * 512
    for n in range(FILES):
        (folder / f"d{n % 100}" / f"f{n}").write_text("changed\n")
    details = await while_others_ask(served, ask(served, "GET", at, 200))
    state = details["state"]
    assert state["changed"] == FILES
    assert len(state["files"]) == 100
    found = await while_others_ask(served, ask(served, "GET", f"{at}/diff", 200))
    assert found["patch_cut"]
    assert len(found["patch"]) <= 1024 * 1024
    assert found["files_cut"]
    problem = await ask(served, "DELETE", at, 409)
    assert len(problem["detail"]) < 1000
    removed = await while_others_ask(served, ask(served, "DELETE", f"{at}?discard=true", 200))
    assert git(tmp_path / "large", "show", f"{removed['saved_ref']}:d0/f0") == "changed"
    assert not folder.exists()

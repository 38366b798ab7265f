"""Real repositories for the tests of the interface, and what people do in them by hand."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from tests.api.serving import Served


def git(folder: Path, *arguments: str, code: int = 0) -> str:
    """Run git as a person would, with nothing of this machine's settings."""
    env = {
        "PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": "/nonexistent", "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@a",
        "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@a",
    }  # fmt: skip
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=60,
        errors="backslashreplace",
    )  # fmt: skip
    assert done.returncode == code, f"{arguments}: {done.stderr}"
    return done.stdout.strip()


def new_repository(folder: Path, *options: str, commit: bool = True) -> Path:
    """Make a repository, with one commit of one file."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main", *options)
    if commit:
        add_commit(folder, "file", "one\n")
    return folder


def add_commit(folder: Path, name: str, text: str) -> str:
    """Commit a file; gives the commit."""
    (folder / name).write_text(text)
    git(folder, "add", "--", name)
    git(folder, "commit", "-q", "-m", f"add {name}")
    return git(folder, "rev-parse", "HEAD")


async def ask(served: Served, method: str, at: str, status: int, /, **body: object) -> Any:
    """Ask, and expect a status."""
    answer = await served.ask.request(method, at, json=body or None)
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


async def registered(served: Served, folder: Path) -> str:
    """Register a repository; gives its id."""
    repo = await ask(served, "POST", "/repos", 201, path=str(folder))
    repo_id: str = repo["repo_id"]
    return repo_id


async def worktree(served: Served, repo_id: str, **new: object) -> tuple[str, Path]:
    """Make a worktree; gives its id and its folder."""
    made = await ask(served, "POST", f"/repos/{repo_id}/worktrees", 201, **(new or {"name": "w"}))
    return made["worktree_id"], Path(made["path"])


async def state_of(served: Served, worktree_id: str) -> dict[str, Any]:
    """Look at a worktree."""
    details = await ask(served, "GET", f"/worktrees/{worktree_id}", 200)
    state: dict[str, Any] = details["state"]
    return state

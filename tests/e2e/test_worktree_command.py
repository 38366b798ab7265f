"""`agor repo` and `agor worktree` as people and scripts meet them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.api.repositories import add_commit, git, new_repository
from tests.e2e.people_commands import Agor


@pytest.fixture
def shop(tmp_path: Path, agor: Agor) -> Path:
    """A registered repository."""
    folder = new_repository(tmp_path / f"shop-{tmp_path.name[-8:]}")
    assert agor.done("repo", "add", str(folder)) == f"{folder.name} is registered: {folder}\n"
    return folder


def made(agor: Agor, shop: Path, name: str) -> Path:
    return Path(agor.done("worktree", "create", shop.name, "--name", name).rstrip("\n"))


def test_a_worktree_from_its_making_to_its_end(agor: Agor, shop: Path):
    name = f"login-{shop.name}"
    path = made(agor, shop, name)
    assert (path / "file").read_text() == "one\n"
    (path / "file").write_text("two\n")
    (path / "new").write_text("new\n")
    told = agor.done("worktree", "status", name)
    assert "changes    1 changed, 1 new\n" in told
    assert "  ?  new\n" in told
    assert (
        agor.done("worktree", "diff", name, "--stat")
        == "M  +1 -1         file\nA  +1 -0         new\n"
    )
    patch = agor.done("worktree", "diff", name)
    assert "+two\n" in patch
    assert "\x1b" not in patch
    said = agor.refused("worktree", "remove", name)
    assert "1 changed and 1 new files (file, new)" in said
    removed = agor("worktree", "remove", name, "--discard")
    assert (removed.returncode, removed.stdout) == (0, f"{path} is removed\n")
    ref = removed.stderr.split()[-1]
    assert git(shop, "show", f"{ref}:new") == "new"


def test_lists_are_for_people_and_for_programs(agor: Agor, shop: Path):
    path = made(agor, shop, f"list-{shop.name}")
    (line,) = [line for line in agor.done("worktree", "list").splitlines() if str(path) in line]
    assert line.split() == [path.name, "ready", f"agor/{path.name}", str(path)]
    listed = json.loads(agor.done("worktree", "list", "--json"))
    assert str(path) in [each["path"] for each in listed]
    repos = json.loads(agor.done("repo", "list", "--json"))
    assert str(shop) in [each["path"] for each in repos]
    said = agor.refused("repo", "remove", shop.name)
    assert path.name in said


def test_a_clone_is_waited_for_and_a_failed_one_says_why(agor: Agor, shop: Path, tmp_path: Path):
    said = agor.done("repo", "clone", str(shop), "--name", f"c-{shop.name}")
    assert said.startswith(f"c-{shop.name} is cloned: ")
    (tmp_path / "plain").mkdir()
    assert "git clone failed" in agor.refused("repo", "clone", str(tmp_path / "plain"))
    assert "password or a token" in agor.refused("repo", "clone", "https://a:b@host/x")


def test_what_was_left_behind_is_shown_before_it_is_removed(agor: Agor, shop: Path):
    path = made(agor, shop, f"gone-{shop.name}")
    add_commit(path, "done", "x\n")
    path.rename(shop.with_name("away"))
    dry = agor.done("worktree", "prune", "--dry-run")
    assert f"{path}: its folder is gone; would be removed\n" in dry
    assert f"{path}: its folder is gone; removed\n" in agor.done("worktree", "prune")
    assert git(shop, "show", f"agor/{path.name}:done") == "x", "its commits stay"


def test_what_is_not_there_is_not_found_in_words(agor: Agor):
    assert "agor worktree list" in agor.refused("worktree", "status", "nope")
    assert "agor repo list" in agor.refused("worktree", "create", "nope")

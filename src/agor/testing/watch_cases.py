"""Certification: watching files."""

# ruff: noqa: D102 - the names are the sentences

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from agor.environments.base import Change, ChangeKind, EnvironmentPrimitive
from agor.errors import NoSuchFile
from agor.testing.cases import Cases
from agor.testing.waiting import do, soon, until


class Diary:
    """Notes what a watch tells, by paths below the workspace."""

    def __init__(self, workspace: str) -> None:
        self._prefix = f"{workspace}/"
        self.told: list[tuple[ChangeKind, str]] = []

    def note(self, changes: Sequence[Change]) -> None:
        """Be called back."""
        self.told += [(change.kind, change.path.removeprefix(self._prefix)) for change in changes]

    async def until_told(self, kind: ChangeKind, *paths: str) -> None:
        """Wait until this was told of each of these."""
        wanted = {(kind, path) for path in paths}
        try:
            await until(lambda: wanted <= set(self.told))
        except TimeoutError:
            missing = sorted(wanted - set(self.told))[:10]
            pytest.fail(f"was not told {missing}, but {self.told[:50]}")


async def diary_of(environment: EnvironmentPrimitive) -> Diary:
    """Open an empty one."""
    return Diary((await environment.get_base_paths()).workspace)


class WatchCases(Cases):
    """What happens below a watched path is told, and only as long as somebody wants to know."""

    async def test_a_file_is_told_when_it_comes_changes_and_goes(
        self, environment: EnvironmentPrimitive
    ) -> None:
        diary = await diary_of(environment)
        await soon(environment.write_file("before", b""))
        await soon(environment.watch(".", diary.note))
        await soon(environment.write_file("file", b"1"))
        await diary.until_told("added", "file")
        await do(environment, "sh", "-c", "echo more >> file")
        await diary.until_told("changed", "file")
        diary.told.clear()
        await soon(environment.write_file("file", b"replaced"))
        await diary.until_told("changed", "file")
        await do(environment, "rm", "file")
        await diary.until_told("deleted", "file")
        assert {path for _, path in diary.told} == {"file"}

    async def test_new_folders_are_told_with_all_that_is_in_them_at_once(
        self, environment: EnvironmentPrimitive
    ) -> None:
        diary = await diary_of(environment)
        await soon(environment.watch(".", diary.note))
        script = "mkdir -p a/b/c && touch a/1 a/b/2 a/b/c/3"
        await do(environment, "sh", "-c", script)
        await diary.until_told("added", "a", "a/b", "a/b/c", "a/1", "a/b/2", "a/b/c/3")
        await soon(environment.write_file("a/b/c/4", b"later"))
        await diary.until_told("added", "a/b/c/4")

    async def test_a_moved_folder_is_told_at_both_places_and_watched_on(
        self, environment: EnvironmentPrimitive
    ) -> None:
        diary = await diary_of(environment)
        await soon(environment.write_files({"b/deep/file": b"", "kept": b""}))
        await soon(environment.watch(".", diary.note))
        for old, new in (("b", "c"), ("c", "a")):
            await do(environment, "mv", old, new)
            await diary.until_told("deleted", old, f"{old}/deep", f"{old}/deep/file")
            await diary.until_told("added", new, f"{new}/deep", f"{new}/deep/file")
            await soon(environment.write_file(f"{new}/deep/more", b""))
            await diary.until_told("added", f"{new}/deep/more")
            await do(environment, "rm", f"{new}/deep/more")
            await diary.until_told("deleted", f"{new}/deep/more")
        assert not {path for _, path in diary.told} & {"kept"}

    async def test_a_deleted_tree_is_told_whole(self, environment: EnvironmentPrimitive) -> None:
        diary = await diary_of(environment)
        paths = [f"tree/{number % 10}/{number}" for number in range(100)]
        await do(environment, "sh", "-c", "mkdir -p tree/0 tree/1 tree/2 tree/3 tree/4")
        await do(environment, "sh", "-c", "mkdir -p tree/5 tree/6 tree/7 tree/8 tree/9")
        await do(environment, "touch", *paths)
        await soon(environment.watch(".", diary.note))
        await do(environment, "rm", "-r", "tree")
        await diary.until_told("deleted", "tree", *paths, *(f"tree/{one}" for one in range(10)))

    async def test_a_burst_of_files_is_told_whole(self, environment: EnvironmentPrimitive) -> None:
        diary = await diary_of(environment)
        await soon(environment.watch(".", diary.note))
        script = "i=0; while [ $i -lt 2000 ]; do : > file$i; i=$((i+1)); done"
        await do(environment, "sh", "-c", script)
        await diary.until_told("added", *(f"file{number}" for number in range(2000)))

    async def test_a_single_file_is_watched_through_being_replaced(
        self, environment: EnvironmentPrimitive
    ) -> None:
        diary = await diary_of(environment)
        await soon(environment.write_files({"file": b"1", "other": b"1"}))
        await soon(environment.watch("file", diary.note))
        await soon(environment.write_files({"other": b"22", "file": b"22"}))
        await diary.until_told("changed", "file")
        diary.told.clear()
        await soon(environment.write_file("file", b"333"))
        await diary.until_told("changed", "file")
        await do(environment, "rm", "file")
        await diary.until_told("deleted", "file")
        assert {path for _, path in diary.told} == {"file"}

    async def test_odd_names_are_told(self, environment: EnvironmentPrimitive) -> None:
        diary = await diary_of(environment)
        await soon(environment.watch(".", diary.note))
        names = ["two words", "-rf", "new\nline", "ä€😀", "folder/it's"]
        await soon(environment.write_files(dict.fromkeys(names, b"")))
        await diary.until_told("added", *names)

    async def test_nothing_is_told_after_unwatch(self, environment: EnvironmentPrimitive) -> None:
        stopped, going_on = await diary_of(environment), await diary_of(environment)
        watch = await soon(environment.watch(".", stopped.note))
        await soon(environment.watch(".", going_on.note))
        await soon(environment.write_file("before", b""))
        await stopped.until_told("added", "before")
        await soon(watch.unwatch())
        await soon(watch.unwatch())
        stopped.told.clear()
        await soon(environment.write_file("after", b""))
        await going_on.until_told("added", "after")
        assert stopped.told == []

    async def test_a_callback_that_fails_does_not_end_the_watch(
        self, environment: EnvironmentPrimitive
    ) -> None:
        diary = await diary_of(environment)

        def note_and_fail(changes: Sequence[Change]) -> None:
            diary.note(changes)
            raise ValueError("a bug in the callback")

        await soon(environment.watch(".", note_and_fail))
        for name in ("first", "second"):
            await soon(environment.write_file(name, b""))
            await diary.until_told("added", name)

    async def test_a_watched_folder_that_goes_is_told(
        self, environment: EnvironmentPrimitive
    ) -> None:
        diary = await diary_of(environment)
        await soon(environment.write_file("folder/file", b""))
        await soon(environment.watch("folder", diary.note))
        await do(environment, "rm", "-r", "folder")
        await diary.until_told("deleted", "folder", "folder/file")

    async def test_a_missing_path_cannot_be_watched(
        self, environment: EnvironmentPrimitive
    ) -> None:
        workspace = (await environment.get_base_paths()).workspace
        for path in ("missing", "no/such/folder"):
            with pytest.raises(NoSuchFile, match=re.escape(f"{workspace}/{path}")):
                await soon(environment.watch(path, print))

"""Certification: listing folders."""

# ruff: noqa: D102 - the names are the sentences

from __future__ import annotations

import re
import time

import pytest

from agor.environments.base import EnvironmentPrimitive
from agor.errors import EnvironmentFailed, NoSuchFile
from agor.testing.cases import Cases
from agor.testing.waiting import do, soon

#: Seconds that two clocks may differ.
CLOCKS = 60


class ListingCases(Cases):
    """A list says what is there, each by its absolute path, in order."""

    async def test_a_list_says_what_each_entry_is(self, environment: EnvironmentPrimitive) -> None:
        workspace = (await environment.get_base_paths()).workspace
        await soon(environment.write_file("file", b"12345"))
        await soon(environment.write_file("folder/below", b""))
        await do(environment, "sh", "-c", "ln -s folder link; mkfifo pipe")
        found = await soon(environment.list_files())
        assert [(info.path, info.kind) for info in found] == [
            (f"{workspace}/file", "file"),
            (f"{workspace}/folder", "folder"),
            (f"{workspace}/link", "link"),
            (f"{workspace}/pipe", "other"),
        ]
        assert found[0].size == 5
        assert abs(found[0].modified - time.time()) < CLOCKS

    async def test_a_recursive_list_has_all_below_but_not_through_links(
        self, environment: EnvironmentPrimitive
    ) -> None:
        workspace = (await environment.get_base_paths()).workspace
        files = {f"a/b{number}/c": b"" for number in range(30)}
        await soon(environment.write_files(files))
        await do(environment, "ln", "-s", "..", "a/link")
        found = await soon(environment.list_files(".", recursive=True))
        assert [info.path for info in found] == sorted(
            f"{workspace}/{path}"
            for path in ("a", "a/link", *files, *(f"a/b{number}" for number in range(30)))
        )

    async def test_a_folder_may_be_empty_absolute_or_reached_through_a_link(
        self, environment: EnvironmentPrimitive
    ) -> None:
        workspace = (await environment.get_base_paths()).workspace
        assert await soon(environment.list_files()) == []
        await soon(environment.write_file("folder/file", b""))
        await do(environment, "ln", "-s", "folder", "link")
        for given, named in ((f"{workspace}/folder/", "folder"), ("link", "link")):
            found = await soon(environment.list_files(given))
            assert [info.path for info in found] == [f"{workspace}/{named}/file"]
        assert "/tmp" in {info.path for info in await soon(environment.list_files("/"))}  # noqa: S108

    async def test_what_is_missing_or_no_folder_is_named(
        self, environment: EnvironmentPrimitive
    ) -> None:
        workspace = (await environment.get_base_paths()).workspace
        with pytest.raises(NoSuchFile, match=re.escape(f"{workspace}/missing")):
            await soon(environment.list_files("missing"))
        await soon(environment.write_file("file", b""))
        with pytest.raises(EnvironmentFailed, match=re.escape(f"{workspace}/file")):
            await soon(environment.list_files("file"))

    async def test_folders_that_may_not_be_read_are_left_out(
        self, environment: EnvironmentPrimitive
    ) -> None:
        if (await soon(environment.run(["id", "-u"]))).stdout == b"0\n":
            pytest.skip("root may read everything")
        await soon(environment.write_files({"closed/a": b"", "open/b": b""}))
        await do(environment, "chmod", "000", "closed")
        found = {info.path for info in await soon(environment.list_files(recursive=True))}
        workspace = (await environment.get_base_paths()).workspace
        assert found == {f"{workspace}/{path}" for path in ("closed", "open", "open/b")}
        with pytest.raises(EnvironmentFailed, match="closed"):
            await soon(environment.list_files("closed"))

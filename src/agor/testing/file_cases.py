"""Certification: reading and writing files."""

# ruff: noqa: D102 - the names are the sentences

from __future__ import annotations

import asyncio
import os
import re

import pytest

from agor.environments.base import EnvironmentPrimitive
from agor.errors import BadInput, EnvironmentFailed, NoSuchFile
from agor.testing.cases import Cases
from agor.testing.waiting import do, soon

ODD_NAMES = [
    "two words", "-rf", "--", "new\nline", "\n", "it's", '"', "$HOME", "*", "ä€😀", "\\", ".hidden",
    "ends with newline\n", "tab\t", os.fsdecode(b"not-utf8-\xff"), "n" * 255,
]  # fmt: skip


async def mode_of(environment: EnvironmentPrimitive, path: str) -> str:
    """Ask for the permissions of a file."""
    seen = await soon(environment.run(["stat", "-c", "%a", "--", path]))
    return seen.stdout.decode().strip()


class FileCases(Cases):
    """What is written is what is read, whatever its name, and never half of it."""

    @pytest.mark.parametrize(
        "data",
        [b"", b"text\n", bytes(range(256)), b"no newline", os.urandom(5 * 1024 * 1024)],
        ids=["empty", "text", "every byte", "no newline", "5 MB"],
    )
    async def test_what_is_written_is_read(
        self, environment: EnvironmentPrimitive, data: bytes
    ) -> None:
        await soon(environment.write_file("file", data))
        assert await soon(environment.read_file("file")) == data
        assert (await soon(environment.run(["cat", "file"]))).stdout == data

    @pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
    async def test_a_name_may_be_odd(self, environment: EnvironmentPrimitive, name: str) -> None:
        await soon(environment.write_file(name, b"first"))
        await soon(environment.write_file(name, b"odd"))
        await soon(environment.write_file(f"folder/{name}/{name}", b"odder"))
        assert await soon(environment.read_file(name)) == b"odd"
        assert await soon(environment.read_file(f"folder/{name}/{name}")) == b"odder"
        workspace = (await environment.get_base_paths()).workspace
        assert [info.path for info in await soon(environment.list_files(f"folder/{name}"))] == [
            f"{workspace}/folder/{name}/{name}"
        ]

    @pytest.mark.parametrize("path", ["a\0b", "\ud800"], ids=ascii)
    async def test_what_cannot_be_a_path_is_refused(
        self, environment: EnvironmentPrimitive, path: str
    ) -> None:
        with pytest.raises(BadInput):
            await soon(environment.read_file(path))

    async def test_several_files_are_written(self, environment: EnvironmentPrimitive) -> None:
        files = {"a": b"1", "b/c": b"2", "b/d/e": b""}
        await soon(environment.write_files(files))
        for path, data in files.items():
            assert await soon(environment.read_file(path)) == data

    async def test_relative_paths_are_below_the_workspace_and_may_lead_out(
        self, environment: EnvironmentPrimitive
    ) -> None:
        paths = await environment.get_base_paths()
        await soon(environment.write_file("folder/file", b"here"))
        for path in (f"{paths.workspace}/folder/file", "./folder//file", "folder/../folder/file"):
            assert await soon(environment.read_file(path)) == b"here"
        await do(environment, "ln", "-s", paths.runtime, "out")
        await soon(environment.write_file("out/file", b"outside"))
        assert await soon(environment.read_file(f"{paths.runtime}/file")) == b"outside"

    async def test_a_link_is_read_through_and_replaced_by_a_write(
        self, environment: EnvironmentPrimitive
    ) -> None:
        await soon(environment.write_file("target", b"target"))
        await do(environment, "ln", "-s", "target", "link")
        assert await soon(environment.read_file("link")) == b"target"
        await soon(environment.write_file("link", b"written"))
        assert await soon(environment.read_file("link")) == b"written"
        assert await soon(environment.read_file("target")) == b"target"

    async def test_a_file_keeps_its_mode_unless_one_is_given(
        self, environment: EnvironmentPrimitive
    ) -> None:
        await soon(environment.write_file("script", b"1"))
        assert await mode_of(environment, "script") == "644"
        await do(environment, "chmod", "750", "script")
        await soon(environment.write_file("script", b"2"))
        assert await mode_of(environment, "script") == "750"
        await soon(environment.write_file("script", b"3", mode=0o600))
        assert await mode_of(environment, "script") == "600"
        await soon(environment.write_file("secret/key", b"4", mode=0o400))
        assert await mode_of(environment, "secret/key") == "400"

    async def test_files_belong_to_the_user_that_commands_run_as(
        self, environment: EnvironmentPrimitive
    ) -> None:
        await soon(environment.write_file("folder/file", b""))
        user = await soon(environment.run(["id", "-u"]))
        owners = await soon(environment.run(["stat", "-c", "%u", "folder", "folder/file"]))
        assert owners.stdout == user.stdout * 2

    async def test_a_reader_never_sees_half_a_file(self, environment: EnvironmentPrimitive) -> None:
        states = [letter * 1_000_000 for letter in (b"a", b"b")]
        await soon(environment.write_file("file", states[0]))

        async def write() -> None:
            for number in range(20):
                await environment.write_file("file", states[number % 2])

        writing = asyncio.create_task(soon(write()))
        while not writing.done():
            assert await soon(environment.read_file("file")) in states
        await writing
        assert len(await soon(environment.list_files())) == 1

    async def test_a_missing_file_is_named(self, environment: EnvironmentPrimitive) -> None:
        workspace = (await environment.get_base_paths()).workspace
        for path in ("missing", "no/such folder/file"):
            with pytest.raises(NoSuchFile, match=re.escape(f"{workspace}/{path}")):
                await soon(environment.read_file(path))

    async def test_what_is_no_file_is_neither_read_nor_written_over(
        self, environment: EnvironmentPrimitive
    ) -> None:
        await do(environment, "sh", "-c", "mkdir folder; mkfifo pipe; ln -s folder link")
        for path in ("folder", "pipe", "link"):
            with pytest.raises(EnvironmentFailed, match=path):
                await soon(environment.read_file(path))
        for path in ("folder", "link"):
            with pytest.raises(EnvironmentFailed, match=path):
                await soon(environment.write_file(path, b""))
        await soon(environment.write_file("file", b""))
        with pytest.raises(EnvironmentFailed, match="file/below"):
            await soon(environment.write_file("file/below", b""))

    async def test_what_the_user_may_not_read_or_write_is_refused(
        self, environment: EnvironmentPrimitive
    ) -> None:
        if (await soon(environment.run(["id", "-u"]))).stdout == b"0\n":
            pytest.skip("root may do everything")
        await soon(environment.write_file("closed/file", b"", mode=0o000))
        with pytest.raises(EnvironmentFailed, match="closed/file"):
            await soon(environment.read_file("closed/file"))
        await do(environment, "chmod", "500", "closed")
        with pytest.raises(EnvironmentFailed, match="closed/file"):
            await soon(environment.write_file("closed/file", b""))

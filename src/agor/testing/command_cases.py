"""Certification: commands, what they are given and what they give back."""

# ruff: noqa: D102 - the names are the sentences

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from agor.environments.base import EnvironmentPrimitive
from agor.errors import BadInput, EnvironmentFailed
from agor.testing.cases import Cases
from agor.testing.waiting import soon

ODD_WORDS = ["two words", "", "it's", '"quoted"', "$HOME", "`id`", "*", "a\nb", "\\", "ä€😀", "--"]


class CommandCases(Cases):
    """A command gets what it is given, and its result is what it did."""

    async def test_the_three_streams_are_kept_apart(
        self, environment: EnvironmentPrimitive
    ) -> None:
        done = await soon(environment.run(["sh", "-c", "cat; echo oops >&2"], b"hello\n"))
        assert (done.exit_code, done.stdout, done.stderr) == (0, b"hello\n", b"oops\n")

    @pytest.mark.parametrize("code", [0, 1, 2, 42, 126, 255])
    async def test_the_exit_code_is_the_commands(
        self, environment: EnvironmentPrimitive, code: int
    ) -> None:
        assert (await soon(environment.run(["sh", "-c", f"exit {code}"]))).exit_code == code

    @pytest.mark.parametrize("number", [1, 9, 15])
    async def test_a_command_that_dies_of_a_signal_ends_with_minus_its_number(
        self, environment: EnvironmentPrimitive, number: int
    ) -> None:
        done = await soon(environment.run(["sh", "-c", f"kill -{number} $$"]))
        assert done.exit_code == -number

    async def test_a_program_that_is_not_there_ends_with_127_and_is_named(
        self, environment: EnvironmentPrimitive
    ) -> None:
        done = await soon(environment.run(["agor-no-such-program"]))
        assert done.exit_code == 127
        assert b"agor-no-such-program" in done.stderr

    async def test_a_folder_that_is_not_there_ends_with_126_and_is_named(
        self, environment: EnvironmentPrimitive
    ) -> None:
        done = await soon(environment.run(["true"], cwd="no-such-folder"))
        assert done.exit_code == 126
        assert b"no-such-folder" in done.stderr

    async def test_words_arrive_as_they_are(self, environment: EnvironmentPrimitive) -> None:
        show = ["sh", "-c", 'printf "%s\\0" "$@"', "sh", *ODD_WORDS]
        done = await soon(environment.run(show))
        assert done.stdout.decode().split("\0")[:-1] == ODD_WORDS

    async def test_given_variables_arrive_as_they_are(
        self, environment: EnvironmentPrimitive
    ) -> None:
        given = {f"GIVEN_{number}": word for number, word in enumerate(ODD_WORDS)}
        show = "".join(f'printf "%s\\0" "${name}"; ' for name in given)
        done = await soon(environment.run(["sh", "-c", show], env=given))
        assert done.stdout.decode().split("\0")[:-1] == ODD_WORDS

    async def test_nothing_of_our_own_environment_leaks_in(
        self, environment: EnvironmentPrimitive, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(os.environ, "AGOR_TEST_SECRET", "do-not-tell")
        seen = await soon(environment.run(["env"], env={"GIVEN": "1"}))
        assert b"GIVEN=1\n" in seen.stdout
        assert b"do-not-tell" not in seen.stdout
        home = (await environment.get_base_paths()).home
        assert f"HOME={home}\n".encode() in seen.stdout

    async def test_it_starts_in_the_workspace_or_where_it_is_told(
        self, environment: EnvironmentPrimitive
    ) -> None:
        workspace = (await environment.get_base_paths()).workspace
        await soon(environment.write_file("deep/er/file", b""))
        for told, expected in ((None, workspace), ("deep/er", f"{workspace}/deep/er"), ("/", "/")):
            seen = await soon(environment.run(["pwd"], cwd=told))
            assert seen.stdout.decode() == f"{expected}\n"

    async def test_the_runtime_folder_can_be_written_to(
        self, environment: EnvironmentPrimitive
    ) -> None:
        runtime = (await environment.get_base_paths()).runtime
        await soon(environment.write_file(f"{runtime}/kept", b"here"))
        assert await soon(environment.read_file(f"{runtime}/kept")) == b"here"

    async def test_input_that_nobody_reads_is_no_mistake(
        self, environment: EnvironmentPrimitive
    ) -> None:
        assert (await soon(environment.run(["true"], bytes(1_000_000)))).exit_code == 0

    async def test_writing_to_a_command_that_ended_fails(
        self, environment: EnvironmentPrimitive
    ) -> None:
        async with await soon(environment.exec(["true"])) as running:
            await soon(running.wait())
            with pytest.raises(EnvironmentFailed):
                await soon(running.stdin.write(bytes(1_000_000)))

    async def test_output_over_the_cap_ends_the_command_and_fails(
        self, environment: EnvironmentPrimitive
    ) -> None:
        with pytest.raises(EnvironmentFailed, match="1000 bytes"):
            await soon(environment.run(["yes"], max_output=1000))

    async def test_many_commands_at_once_keep_to_themselves(
        self, environment: EnvironmentPrimitive
    ) -> None:
        async def echo(number: int) -> None:
            script = f'read -r word; echo "$word"; exit {number}'
            done = await environment.run(["sh", "-c", script], f"{number}\n".encode())
            assert (done.stdout, done.exit_code) == (f"{number}\n".encode(), number)

        await soon(asyncio.gather(*(echo(number) for number in range(20))))

    @pytest.mark.parametrize(
        ("command", "env"),
        [
            ([], {}),
            ("true", {}),
            ([""], {}),
            (["-c"], {}),
            (["echo", "a\0b"], {}),
            (["true"], {"A=B": "1"}),
            (["true"], {"": "1"}),
            (["true"], {"A": "\0"}),
            (["echo", "\ud800"], {}),
        ],
    )
    async def test_what_cannot_be_a_command_is_refused(
        self, environment: EnvironmentPrimitive, command: Any, env: dict[str, str]
    ) -> None:
        with pytest.raises(BadInput):
            await soon(environment.exec(command, env=env))

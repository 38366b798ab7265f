"""Certification: streams, large, binary, slow, and held up."""

# ruff: noqa: D102 - the names are the sentences

from __future__ import annotations

import asyncio

import pytest

from agor.environments.base import EnvironmentPrimitive
from agor.testing.cases import Cases
from agor.testing.waiting import do, soon

MUCH = 10 * 1024 * 1024
#: More than any sensible buffer on the way.
TOO_MUCH = 32 * 1024 * 1024
FLOOD = ["sh", "-c", f'head -c {TOO_MUCH} /dev/zero && touch "$1"', "sh"]


class StreamingCases(Cases):
    """Everything arrives, in order, and nothing piles up on the way."""

    async def test_every_byte_passes_unchanged(self, environment: EnvironmentPrimitive) -> None:
        data = bytes(range(256)) * 40
        assert (await soon(environment.run(["cat"], data))).stdout == data

    async def test_much_goes_in_and_out_at_the_same_time(
        self, environment: EnvironmentPrimitive
    ) -> None:
        data = b"0123456789abcdef" * (MUCH // 16)
        assert (await soon(environment.run(["cat"], data))).stdout == data

    async def test_much_on_both_outputs_does_not_deadlock(
        self, environment: EnvironmentPrimitive
    ) -> None:
        script = f"head -c {MUCH} /dev/zero >&2; head -c {MUCH} /dev/zero"
        done = await soon(environment.run(["sh", "-c", script]))
        assert (len(done.stdout), len(done.stderr)) == (MUCH, MUCH)

    async def test_a_conversation_is_possible(self, environment: EnvironmentPrimitive) -> None:
        script = 'while read -r word; do echo "got $word"; done; echo end'
        async with await soon(environment.exec(["sh", "-c", script])) as running:
            for number in range(20):
                await soon(running.stdin.write(f"{number}\n".encode()))
                expected = f"got {number}\n".encode()
                heard = b""
                while len(heard) < len(expected):
                    heard += await soon(anext(running.stdout))
                assert heard == expected
            await soon(running.stdin.close())
            assert await soon(anext(running.stdout)) == b"end\n"
            with pytest.raises(StopAsyncIteration):
                await soon(anext(running.stdout))
            assert await soon(running.wait()) == 0

    async def test_output_that_is_not_read_holds_the_command_up(
        self, environment: EnvironmentPrimitive
    ) -> None:
        async with await soon(environment.exec([*FLOOD, "held-up"])) as held:
            first = await soon(anext(held.stdout))
            assert len(first) <= 1024 * 1024
            # By the time that a second one was read to its end, the first could have ended.
            await do(environment, *FLOOD, "read")
            names = {info.path.rpartition("/")[2] for info in await environment.list_files()}
            assert names == {"read"}
            rest = 0
            async for piece in held.stdout:
                rest += len(piece)
            assert len(first) + rest == TOO_MUCH
            assert await soon(held.wait()) == 0

    async def test_input_that_is_not_read_holds_the_writer_up(
        self, environment: EnvironmentPrimitive
    ) -> None:
        script = "read -r go < go; cat | wc -c"
        await do(environment, "mkfifo", "go")
        async with await soon(environment.exec(["sh", "-c", script])) as running:
            writing = asyncio.create_task(running.stdin.write(bytes(TOO_MUCH)))
            await soon(environment.run(["cat"], bytes(TOO_MUCH)))
            assert not writing.done()
            await do(environment, "sh", "-c", "echo go > go")
            await soon(writing)
            await soon(running.stdin.close())
            assert int(await soon(anext(running.stdout))) == TOO_MUCH

    async def test_a_flood_leaves_the_event_loop_to_others(
        self, environment: EnvironmentPrimitive
    ) -> None:
        async def drink() -> None:
            async for _ in running.stdout:
                pass

        async with await soon(environment.exec(["yes"])) as running:
            drinking = asyncio.create_task(drink())
            assert (await soon(environment.run(["echo", "still here"]))).stdout == b"still here\n"
            await soon(running.kill())
            await soon(drinking)
            assert await soon(running.wait()) == -15

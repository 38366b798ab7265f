"""Back-pressure: a daemon that does not acknowledge or does not read makes the agent wait."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from agor.protocol.events import BlockDelta
from tests.integration.daemon_side import Script, daemon
from tests.integration.processes import memory
from tests.integration.wire import ack, prompt, request, streams

MEBI = 2**20
OUTBOX = ("--outbox-bytes", str(MEBI))
#: A hundred times what the outbox holds.
EVENTS, BYTES = 100_000, 1000
FLOOD: Script = [{"flood": {"events": EVENTS, "bytes": BYTES}}]


def held(messages: list[Any]) -> int:
    """Count the bytes of what was received, as text; a little less than the outbox counts."""
    return sum(len(bytes(message.event_data)) for message in messages)


async def test_a_flood_waits_at_the_bound_for_acknowledgements_and_then_arrives_whole(start):
    executor = start(*OUTBOX)
    async with daemon(executor.path, acknowledge=False) as side:
        await side.prompt("warm up", "first")
        before = memory(executor.pid)
        run = side.start(FLOOD, "flood")
        # So near to the bound that the rest is the events' own overhead.
        await side.until(lambda: held(side.messages["flood"]) > 0.7 * MEBI)
        for _ in range(50):
            assert (await side.ping()).pong
        assert held(side.messages["flood"]) < MEBI
        assert (await side.greet()).tasks[-1].last_sequence == len(side.messages["flood"])
        side.ack_all()
        assert (await run).status == "completed"
        assert side.sequences("flood") == list(range(1, EVENTS + 7))
        assert [d.index for d in side.of_kind("flood", BlockDelta)] == list(range(EVENTS))
        assert memory(executor.pid, "VmHWM") - before < 16 * MEBI


async def test_a_flood_with_nobody_connected_waits_at_the_bound_and_goes_on_afterwards(start):
    executor = start(*OUTBOX)
    async with daemon(executor.path) as side:
        await side.prompt("warm up", "first")
        before = memory(executor.pid)
        side.start([{"delay_ms": 100}, {"flood": {"events": EVENTS, "bytes": BYTES}}], "flood")
        await side.until(lambda: side.messages["flood"])
    async with daemon(executor.path, acknowledge=False) as side:
        await side.until(lambda: held(side.messages["flood"]) > 0.7 * MEBI)
        side.ack_all()
        last = await side.finished("flood")
        assert side.sequences("flood")[-1] == last == EVENTS + 6
        assert memory(executor.pid, "VmHWM") - before < 16 * MEBI


async def test_a_task_that_waits_at_the_bound_can_be_stopped_and_says_so(start):
    executor = start(*OUTBOX)
    async with daemon(executor.path, acknowledge=False) as side:
        run = side.start(FLOOD, "flood")
        await side.until(lambda: held(side.messages["flood"]) > 0.7 * MEBI)
        assert (await side.stop("flood")).stopped
        assert (await run).status == "cancelled"
        last = await side.finished("flood")
        assert side.sequences("flood") == list(range(1, last + 1))


async def test_a_task_that_waits_at_the_bound_can_time_out_and_says_so(start):
    executor = start(*OUTBOX)
    async with daemon(executor.path, acknowledge=False) as side:
        result = await side.prompt(FLOOD, "flood", timeout_ms=1000)
        assert result.error is not None
        assert result.error.code == "timed_out"
        await side.finished("flood")


async def _read_slowly(path: Path, script: Script) -> list[dict[str, Any]]:
    """Take a task's events a few bytes at a time, while another connection asks in between."""
    received: list[dict[str, Any]] = []
    partial = b""
    async with (
        asyncio.timeout(60),
        daemon(path, greet=False) as other,
        streams(path, limit=4096) as (reader, writer),
    ):
        writer.write(prompt(1, script, "slow"))
        while not received or received[-1].get("id") != 1:
            partial += await reader.read(4096)
            *lines, partial = partial.split(b"\n")
            received += map(json.loads, lines)
            sequences = [m["params"]["sequence"] for m in received[-len(lines) :] if "params" in m]
            if lines and sequences:
                writer.write(ack("slow", sequences[-1]))
            assert (await other.ping()).pong
    return received


async def test_a_daemon_that_reads_slowly_slows_the_task_and_loses_nothing(start):
    executor = start(*OUTBOX)
    async with daemon(executor.path) as side:
        await side.prompt("warm up", "first")
    before = memory(executor.pid)
    messages = await _read_slowly(executor.path, [{"flood": {"events": 20_000, "bytes": BYTES}}])
    *events, answer = messages
    assert answer["result"]["status"] == "completed"
    assert [e["params"]["sequence"] for e in events] == list(range(1, 20_007))
    assert memory(executor.pid, "VmHWM") - before < 16 * MEBI


async def test_the_output_of_a_program_waits_in_its_pipe(start):
    executor = start(*OUTBOX)
    async with daemon(executor.path, acknowledge=False) as side:
        await side.prompt("warm up", "first")
        before = memory(executor.pid)
        run = side.start([{"run": ["yes", "y" * 1000]}], "endless")
        await side.until(lambda: held(side.messages["endless"]) > 0.7 * MEBI)
        for _ in range(50):
            await side.ping()
        assert memory(executor.pid, "VmHWM") - before < 16 * MEBI
        await side.stop("endless")
        await run
    executor.wait_childless()


async def test_without_streaming_a_large_output_does_not_pile_up_in_memory(start, tmp_path):
    executor = start(*OUTBOX)
    async with daemon(executor.path) as side:
        await side.prompt("warm up", "first")
        before = memory(executor.pid)
        command = f"yes {'y' * 1000} | head -c {100 * MEBI}"
        result = await side.prompt([{"run": ["sh", "-c", command]}], "large", stream=False)
        assert result.status == "completed"
        assert len(side.text("large")) == 100 * MEBI
        assert memory(executor.pid, "VmHWM") - before < 32 * MEBI


async def test_tasks_that_have_ended_do_not_keep_their_prompts_in_memory(own_executor):
    async with daemon(own_executor.path) as side:
        padded = '[{"delay_ms": 0}' + " " * (4 * MEBI) + "]"
        await side.prompt(padded)
        before = memory(own_executor.pid)
        for _ in range(30):
            assert (await side.prompt(padded)).status == "completed"
        assert memory(own_executor.pid) - before < 40 * MEBI


async def test_a_busy_task_does_not_silence_the_others(start):
    """The daemon is far behind with one task; the events of another need not wait for that."""
    executor = start("--outbox-bytes", str(8 * MEBI))
    async with daemon(executor.path, acknowledge=False) as first:
        first.start(FLOOD, "busy")
        await first.until(lambda: len(first.messages["busy"]) * BYTES > 6 * MEBI)
    greeting = {"protocol_version": "1.0", "daemon_id": "has it all to read again"}
    async with (
        asyncio.timeout(60),
        daemon(executor.path, greet=False) as other,
        streams(executor.path, limit=4096) as (reader, writer),
    ):
        writer.write(request(1, "initialize", greeting))
        assert json.loads(await reader.readline())["id"] == 1
        # A task of another connection; its events go to the daemon's.
        other.start("a few words", "quiet")
        await executor.logged("task_id=quiet")
        behind, task = 0, "busy"
        while task == "busy":
            line = await reader.readline()
            behind += len(line)
            task = json.loads(line)["params"]["task_id"]
        # A socket holds a quarter of a mebibyte or so; the rest was in the outbox.
        assert behind < 2 * MEBI

"""Delivery: whoever vanishes, each event arrives, in order, until it is acknowledged."""

from __future__ import annotations

import asyncio

from agor.protocol.events import BlockDelta
from tests.integration.daemon_side import (
    Daemon,
    Script,
    daemon,
    new_task_id,
    soon,
)
from tests.integration.wire import ack, prompt, wire


def numbers(first: int, last: int) -> list[int]:
    return list(range(first, last + 1))


async def test_what_was_not_acknowledged_is_sent_again_and_nothing_else(own_executor):
    async with daemon(own_executor.path, acknowledge=False) as first:
        await first.prompt("one two three four", "task")
        first.ack("task", 5)
        await first.ping()
    last = first.sequences("task")[-1]
    async with daemon(own_executor.path, acknowledge=False) as second:
        await second.finished("task")
        assert second.sequences("task") == numbers(6, last)
        assert second.messages["task"] == first.messages["task"][5:], "byte for byte"
        second.ack("task", last)
        await second.ping()
    async with daemon(own_executor.path) as third:
        assert (await third.greet()).tasks == []
        await third.ping()
        assert third.messages == {}


async def test_initialize_tells_how_far_each_task_is(own_executor):
    async with daemon(own_executor.path, acknowledge=False) as first:
        await first.prompt("hello", "ended")
        waiting = first.start([{"delay_ms": 10**7}], "going on")
        await first.until(lambda: len(first.messages["going on"]) == 2)
        first.ack("ended", 3)
        first.ack("going on", 2)
        await first.ping()
    assert waiting.exception() is not None
    async with daemon(own_executor.path, greet=False) as second:
        told = [
            (task.task_id, task.state, task.last_sequence, task.acked_sequence)
            for task in (await second.greet()).tasks
        ]
        assert told == [("ended", "completed", 7, 3), ("going on", "running", 2, 2)]


async def test_a_task_goes_on_while_nobody_is_connected(own_executor, tmp_path, gate):
    script: Script = [gate.step, {"run": ["touch", "went-on"]}, {"text": "all of it"}]
    async with daemon(own_executor.path) as first:
        first.start(script, "task", cwd=str(tmp_path))
        await first.until(lambda: first.messages["task"])
    await gate.open()
    await own_executor.logged("task_ended")
    assert (tmp_path / "went-on").exists()
    async with daemon(own_executor.path) as second:
        last = await second.finished("task")
        result = await second.prompt(script, "task")
        assert (result.status, second.text("task")) == ("completed", "all of it")
        seen = first.sequences("task")[-1]
        assert second.sequences("task")[0] <= seen + 1, "no gap between the two"
        assert second.sequences("task")[-1] == last


async def _take_some(side: Daemon, count: int, stored: dict[int, bytes]) -> None:
    """Receive some events, as a daemon that commits them and is then cut off."""
    received = side.messages["task"]
    await side.until(lambda: len(received) > 2 * count)
    assert side.sequences("task") == numbers(received[0].sequence, received[-1].sequence)
    assert received[0].sequence <= len(stored) + 1, "no gap"
    for message in received:
        known = stored.setdefault(message.sequence, bytes(message.event_data))
        assert known == bytes(message.event_data)
    # Whether the executor hears of this depends on the moment.
    side.ack("task", received[count].sequence)
    side.peer.abort()


async def test_a_disconnect_at_any_moment_loses_and_doubles_nothing(own_executor):
    stored: dict[int, bytes] = {}
    events = 3000
    async with daemon(own_executor.path, acknowledge=False) as first:
        first.start([{"flood": {"events": events, "bytes": 50}}], "task")
        await _take_some(first, 1, stored)
    for cut in range(2, 14):
        async with daemon(own_executor.path, acknowledge=False) as side:
            await _take_some(side, 7 * cut, stored)
    async with daemon(own_executor.path) as last:
        total = await last.finished("task")
        assert last.sequences("task") == numbers(last.sequences("task")[0], total)
        assert last.sequences("task")[0] <= len(stored) + 1, "no gap"
        for message in last.messages["task"]:
            stored[message.sequence] = bytes(message.event_data)
        assert sorted(stored) == numbers(1, total)
        assert total == events + 6


async def test_a_late_acknowledgement_of_the_old_connection_counts_too(own_executor):
    async with daemon(own_executor.path, acknowledge=False) as old:
        await old.prompt("one two three", "task")
        async with daemon(own_executor.path, acknowledge=False) as new:
            last = await new.finished("task")
            assert new.sequences("task") == numbers(1, last), "the new one gets them all"
            old.ack("task", last)
            await old.ping()
            assert (await new.greet()).tasks == []


async def test_an_acknowledgement_of_nothing_changes_nothing(own_executor):
    async with daemon(own_executor.path, acknowledge=False) as side:
        await side.prompt("hello", "task")
        side.ack("no such task", 3)
        side.ack("task", 1000)
        (task,) = (await side.greet()).tasks
        assert (task.last_sequence, task.acked_sequence) == (7, 0)


async def test_the_result_follows_the_last_event_on_the_wire(side):
    seen: list[str] = []
    task = new_task_id()
    run = side.start("hello", task)
    run.add_done_callback(lambda _: seen.append(side.messages[task][-1].event_type))
    await soon(run)
    await asyncio.sleep(0)
    assert seen == ["task_result"]


async def test_a_repeated_prompt_on_the_next_connection_gives_the_result_of_the_first(
    own_executor, gate
):
    script: Script = [gate.step, {"text": "once"}]
    async with daemon(own_executor.path) as first:
        first.start(script, "task")
        await first.until(lambda: first.messages["task"])
    async with daemon(own_executor.path) as second:
        again = second.start(script, "task")
        await gate.open()
        result = await soon(again)
        assert result.status == "completed"
        assert [d.text for d in second.of_kind("task", BlockDelta)] == ["once"]


async def test_when_the_daemon_hangs_up_who_still_waits_for_a_result_gets_it(own_executor):
    """Without a greeting, a caller gets the events unless there is a daemon; now there is none."""
    async with (
        daemon(own_executor.path) as first,
        daemon(own_executor.path, greet=False) as second,
    ):
        run = second.start([{"delay_ms": 300}, {"text": "hello"}], "task")
        await first.until(lambda: first.messages["task"])
        await first.close()
        assert (await soon(run)).status == "completed"
        assert second.text("task") == "hello"


def test_callers_that_come_and_go_quickly_are_all_served(own_executor):
    for number in range(100):
        with wire(own_executor.path) as connection:
            connection.send(prompt(1, "hello", f"task-{number}"))
            assert connection.read_until(id=1)["result"]["status"] == "completed"
            connection.send(ack(f"task-{number}", 7))

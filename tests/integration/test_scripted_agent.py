"""The scripted agent in a real executor: what each step does, seen from the daemon's side."""

from __future__ import annotations

import signal

import msgspec
import pytest

from agor.errors import Disconnected
from agor.protocol.events import (
    BlockComplete,
    BlockDelta,
    BlockStart,
    BlockUpdate,
    Log,
    MetadataUpdate,
    Status,
    TaskResult,
    TokenUsage,
)
from tests.integration.daemon_side import Daemon, daemon, new_task_id, soon


def block_ids(side: Daemon, task_id: str, kind: str) -> list[str]:
    return [b.block_id for b in side.of_kind(task_id, BlockStart) if b.kind == kind]


def text_of(side: Daemon, task_id: str, block_id: str) -> str:
    deltas = [d for d in side.of_kind(task_id, BlockDelta) if d.block_id == block_id]
    assert [d.index for d in deltas] == list(range(len(deltas)))
    (complete,) = [c for c in side.of_kind(task_id, BlockComplete) if c.block_id == block_id]
    text = "".join(d.text for d in deltas)
    assert (complete.deltas, complete.length) == (len(deltas), len(text))
    return text


async def test_a_prompt_that_is_no_script_is_echoed_back_in_deltas(side):
    prompt = "say  hello to everybody,\nzum Beispiel: «grüß Gott» 👋"
    task = new_task_id()
    result = await side.prompt(prompt, task)
    (block,) = block_ids(side, task, "text")
    assert text_of(side, task, block) == prompt
    assert len(side.of_kind(task, BlockDelta)) > 3
    assert (result.status, result.message_count) == ("completed", 1)
    assert result.token_usage == TokenUsage(input=9, output=9)


async def test_the_events_are_numbered_from_one_without_a_gap_and_end_with_the_result(side):
    task = new_task_id()
    result = await side.prompt([{"thinking": "hm"}, {"text": "hello"}], task)
    assert side.sequences(task) == list(range(1, len(side.messages[task]) + 1))
    events = side.events(task)
    assert events[0] == Status("started")
    assert events[-1] == result
    assert {message.session_token for message in side.messages[task]} == {"token-of-the-tests"}
    assert [b.kind for b in side.of_kind(task, BlockStart)] == ["thinking", "text"]


async def test_the_model_and_the_agents_session_are_told_and_can_be_chosen(side):
    task = new_task_id()
    result = await side.prompt("hello", task, model="a-model", resume="an-older-session")
    known, usage = side.of_kind(task, MetadataUpdate)
    assert (known.model, known.agent_session_id) == ("a-model", "an-older-session")
    assert (usage.usage, usage.cost) == (result.token_usage, result.cost)
    assert result.agent_session_id == "an-older-session"


async def test_a_tool_that_need_not_ask_is_used_and_its_result_belongs_to_it(side):
    tool = {"name": "Read", "input": {"path": "a.py"}, "output": "import this"}
    task = new_task_id()
    assert (await side.prompt([{"tool": tool}], task)).status == "completed"
    use, result = side.of_kind(task, BlockStart)
    assert (use.kind, use.tool_name, use.tool_input) == ("tool_use", "Read", {"path": "a.py"})
    assert (result.kind, result.tool_use_id) == ("tool_result", use.tool_use_id)
    assert [u.status for u in side.of_kind(task, BlockUpdate)] == ["completed"]
    assert text_of(side, task, result.block_id) == "import this"
    assert side.questions == []


async def test_a_child_process_runs_in_the_tasks_folder_and_its_output_is_told(side, tmp_path):
    task = new_task_id()
    script = [{"run": ["sh", "-c", "pwd; echo error >&2; printf 'no newline: ü'"]}]
    assert (await side.prompt(script, task, cwd=str(tmp_path))).status == "completed"
    (block,) = block_ids(side, task, "tool_result")
    assert text_of(side, task, block) == f"{tmp_path}\nerror\nno newline: ü"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("exit 3", "exit code 3"),
        ("kill -KILL $$", "killed by SIGKILL"),
        ("kill -40 $$", "40"),
    ],
)
async def test_a_child_process_that_fails_fails_its_tool_and_not_the_task(side, command, reason):
    task = new_task_id()
    assert (await side.prompt([{"run": ["sh", "-c", command]}], task)).status == "completed"
    last = side.of_kind(task, BlockUpdate)[-1]
    assert last.status == "failed"
    assert last.reason is not None
    assert reason in last.reason
    assert all(complete.is_error for complete in side.of_kind(task, BlockComplete))


@pytest.mark.parametrize("command", ["/no/such/program", "/etc/passwd", "a\0b"])
async def test_a_program_that_cannot_be_started_fails_the_task_and_is_named(side, command):
    result = await side.prompt([{"run": [command]}])
    assert (result.status, result.error and result.error.code) == ("failed", "agent_failed")
    assert result.error is not None
    assert repr(command) in result.error.message


async def test_a_child_process_can_use_its_standard_streams_by_name(side):
    task = new_task_id()
    await side.prompt([{"run": ["sh", "-c", "echo a > /dev/stderr; echo b > /dev/stdout"]}], task)
    assert side.text(task) == "a\nb\n"


async def test_a_program_left_in_the_background_does_not_hold_up_the_task(side):
    task = new_task_id()
    script = "sleep 1000 >/dev/null 2>&1 </dev/null & echo started"
    run = side.start([{"run": ["sh", "-c", script]}], task)
    assert (await soon(run)).status == "completed"
    assert side.text(task) == "started\n"


async def test_bytes_that_are_no_text_are_shown_as_replacements(side):
    task = new_task_id()
    await side.prompt([{"run": ["printf", r"a\377b"]}], task)
    assert side.text(task) == "a\N{REPLACEMENT CHARACTER}b"


async def test_a_delay_delays_and_says_nothing(side):
    task = new_task_id()
    assert (await side.prompt([{"delay_ms": 5}], task)).message_count == 0
    assert side.of_kind(task, BlockStart) == []


async def test_a_flood_is_as_many_deltas_of_as_many_characters(side):
    task = new_task_id()
    await side.prompt([{"flood": {"events": 2000, "bytes": 37}}], task)
    assert [(d.index, len(d.text)) for d in side.of_kind(task, BlockDelta)] == [
        (index, 37) for index in range(2000)
    ]
    assert side.sequences(task) == list(range(1, len(side.messages[task]) + 1))


@pytest.mark.parametrize("letter", ["x", "\n", "\x01", "\N{GRINNING FACE}"], ids=ascii)
async def test_a_text_too_long_for_one_event_is_told_in_several(side, letter):
    """None of them is too long for a client that takes messages of up to 1 MiB."""
    task, text = new_task_id(), letter * 600_001
    await side.prompt([{"text": text}], task)
    (block,) = block_ids(side, task, "text")
    assert text_of(side, task, block) == text
    deltas = side.of_kind(task, BlockDelta)
    assert len(deltas) > 1
    assert max(len(msgspec.json.encode(delta)) for delta in deltas) < 1024 * 1024


async def test_a_tool_output_of_5_mib_is_told_in_fewer_than_50_events(side):
    task, text = new_task_id(), "some output of a tool\n" * (5 * 1024 * 1024 // 22)
    await side.prompt([{"tool": {"name": "Bash", "input": {}, "output": text}}], task)
    (block,) = block_ids(side, task, "tool_result")
    assert text_of(side, task, block) == text
    assert len(side.messages[task]) <= 40


async def test_a_failure_ends_the_task_with_its_words_and_nothing_follows(side):
    task = new_task_id()
    result = await side.prompt([{"text": "so far"}, {"fail": "no more"}, {"text": "never"}], task)
    assert result.status == "failed"
    assert result.error is not None
    assert (result.error.code, result.error.message) == ("agent_failed", "no more")
    assert side.text(task) == "so far"
    assert isinstance(side.events(task)[-1], TaskResult)


async def test_a_bad_script_fails_before_anything_is_played(side):
    task = new_task_id()
    result = await side.prompt([{"text": "never shown"}, {"txet": "typo"}], task)
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.code == "bad_script"
    assert result.error.message.startswith("script[1]: ")
    assert side.of_kind(task, BlockStart) == []


async def test_a_key_is_fetched_when_it_is_needed_and_only_its_end_is_told(side):
    side.keys = {"LONG": "sk-0123456789-wxyz", "SHORT": "short"}
    task = new_task_id()
    await side.prompt([{"text": "first"}, {"key": "LONG"}, {"key": "SHORT"}], task)
    assert [request.credential_key for request in side.key_requests] == ["LONG", "SHORT"]
    remarks = [remark.message for remark in side.of_kind(task, Log)]
    assert remarks[0].endswith("…wxyz")
    assert "short" not in remarks[1].replace("SHORT", "")
    assert "0123456789" not in side.wire_text()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
async def test_a_crash_kills_the_executor_with_the_signal(start, number):
    executor = start()
    async with daemon(executor.path) as own:
        run = own.start([{"text": "last words"}, {"crash": int(number)}], "task-crash")
        assert await executor.ended() == -number
        ending = await soon(own.peer.wait_closed())
        assert ending.code in ("disconnected", "broken_frame")
        with pytest.raises(Disconnected):
            await run
        # What was still on its way is lost with it, but nothing in the middle.
        assert own.sequences("task-crash") == list(range(1, len(own.messages["task-crash"]) + 1))

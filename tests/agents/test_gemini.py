"""What is special about Gemini CLI: what it leaves out, tries again, and finds in a repository."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agor.agents.gemini.agent import GeminiAgent
from agor.agents.gemini.home import merged
from agor.agents.gemini.retries import Attempt, RetryLog, read_attempt
from agor.protocol.events import Log
from agor.testing.model import ModelServer
from tests.agents.needed import need_agent
from tests.agents.site import Site, folder_of_its_own
from tests.agents.subjects.gemini import GEMINI


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    need_agent("gemini")
    with folder_of_its_own() as folder:
        async with ModelServer(models=(GEMINI.model, GEMINI.other_model)) as model:
            site = Site(GEMINI, folder, model)
            try:
                yield site
            finally:
                site.clean_up()


async def test_a_repository_cannot_let_tools_run_unasked_nor_say_where_the_key_goes(site: Site):
    made = site.workspace / "made"
    settings = {
        "tools": {"allowed": ["run_shell_command", "write_file"]},
        "general": {"defaultApprovalMode": "auto_edit"},
    }
    (site.workspace / ".gemini").mkdir()
    (site.workspace / ".gemini" / "settings.json").write_text(json.dumps(settings))
    (site.workspace / ".env").write_text("GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:9\n")
    async with site.connected() as trial:
        trial.answer(approved=False)
        script = [GEMINI.run(f"touch {made}")], [GEMINI.write(made, "x")], [{"text": "Then not."}]
        assert (await trial.prompt("make it", *script)).status == "completed"
        assert [each.tool_name for each in trial.side.questions] == [
            "run_shell_command", "write_file",
        ]  # fmt: skip
        assert not made.exists()
    assert site.model.requests


async def test_a_repository_has_nothing_started(site: Site):
    started = site.folder / "started"
    touch = {"command": "touch", "args": [str(started)]}
    hook = {"hooks": [{"type": "command", "command": f"touch {started}"}]}
    settings = {
        "mcpServers": {"theirs": touch},
        "mcp": {"allowed": ["*"]},
        "hooks": {"SessionStart": [hook], "BeforeModel": [hook], "BeforeAgent": [hook]},
    }
    own = site.workspace / ".gemini" / "settings.json"
    own.parent.mkdir()
    own.write_text(json.dumps(settings))
    async with site.connected() as trial:
        assert (await trial.prompt("hello", [{"text": "hello"}])).status == "completed"
        assert not started.exists()
        own.write_text(json.dumps(settings | {"hooksConfig": {"enabled": True}}))
        result = await trial.prompt("and now?", [{"text": "hello"}])
        assert result.error is not None
        assert (result.error.code, "turns hooks on" in result.error.message) == (
            "agent_failed", True,
        )  # fmt: skip
        assert not started.exists()


async def test_the_settings_of_the_person_stay_as_they_are(site: Site):
    own = site.home / ".gemini" / "settings.json"
    own.parent.mkdir()
    own.write_text('{"security": {"auth": {"selectedType": "oauth-personal"}}}')
    before = own.read_bytes()
    async with site.connected() as trial:
        assert (await trial.prompt("hello", [{"text": "hello"}])).status == "completed"
    assert own.read_bytes() == before
    assert list((site.home / ".cache" / "agor" / "scratch").iterdir()) == []


async def test_input_and_result_are_told_of_tools_that_nobody_is_asked_about(site: Site):
    path = site.workspace / "read.txt"
    path.write_text("what is in it\n")
    read = {"tool": {"name": "read_file", "input": {"file_path": str(path)}}}
    async with site.connected() as trial:
        await trial.prompt("read it", [read], [{"text": "I see."}])
        use, result = [each for each in trial.blocks() if each.tool_use_id]
        assert (use.tool_name, use.tool_input, use.status) == (
            "read_file", {"file_path": str(path)}, "completed",
        )  # fmt: skip
        assert "what is in it" in result.text
        assert trial.side.questions == []


async def test_each_attempt_at_a_failing_provider_is_told(site: Site):
    async with site.connected() as trial:
        fault = {"error": "overloaded", "times": 1}
        result = await trial.prompt("try", [fault, {"text": "Here I am."}])
        assert result.status == "completed"
        (told,) = trial.side.of_kind(trial.tasks[0], Log)
        assert "too busy" in told.message
        assert "tries again" in told.message


async def test_another_tool_list_takes_the_conversation_along(site: Site):
    async with site.connected() as trial:
        await trial.prompt("My name is Rosalind.", [{"text": "Pleased."}])
        await trial.prompt("What is my name?", [{"text": "Rosalind."}], tools=["write_file"])
        assert trial.text() == "Rosalind."
    last = [call for call in site.model.requests if b"What is my name?" in call.body][-1]
    assert b"My name is Rosalind." in last.body
    offered = [each["name"] for each in last.json["tools"][0]["functionDeclarations"]]
    assert "write_file" in offered
    assert "run_shell_command" not in offered


async def test_without_a_model_it_chooses_one_itself(site: Site):
    async with site.connected() as trial:
        result = await trial.prompt("hello", [{"text": "hello"}], model=None)
        assert (result.status, trial.text()) == ("completed", "hello")


def test_it_is_described_by_its_package() -> None:
    need_agent("gemini")
    about = GeminiAgent.describe()
    assert (about.available, (about.version or "").count(".")) == (True, 2)


# ── its log ──────────────────────────────────────────────────────────────────────────────────


ERROR = b'{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}'


@pytest.mark.parametrize(
    ("line", "attempt"),
    [
        (
            b"Attempt 2 failed with status 503. Retrying with backoff... _ApiError: %b" % ERROR,
            Attempt(2, 503, "overloaded (UNAVAILABLE)"),
        ),
        (
            b"[t] [WARN] Attempt 1 failed: Quota of this minute. Retrying after 5100ms...",
            Attempt(1, None, "Quota of this minute."),
        ),
        (b"[t] [DEBUG] Attempt to read a file", None),
    ],
)  # fmt: skip
def test_a_line_of_its_log_tells_of_a_failed_attempt(line: bytes, attempt: Attempt | None) -> None:
    assert read_attempt(line) == attempt


async def test_its_log_is_read_however_the_lines_arrive(tmp_path: Path) -> None:
    found: asyncio.Queue[Attempt] = asyncio.Queue()
    log = RetryLog(tmp_path, found.put_nowait)
    try:
        with (tmp_path / RetryLog.NAME).open("ab", buffering=0) as pipe:
            pipe.write(b"noise\nAttempt 1 fai")
            pipe.write(b"led with status 500. x\n")
            pipe.write(b"y" * 10_000 + b"\nAttempt 2 failed with status 429. z\n")
        async with asyncio.timeout(10):
            assert [(await found.get()).number, (await found.get()).number] == [1, 2]
    finally:
        log.close()


def test_our_settings_go_before_those_of_the_person_member_by_member() -> None:
    own = {"tools": {"allowed": ["a"], "core": ["b"]}, "ui": {"theme": "dark"}}
    assert merged(own, {"tools": {"allowed": []}, "new": 1}) == {
        "tools": {"allowed": [], "core": ["b"]}, "ui": {"theme": "dark"}, "new": 1,
    }  # fmt: skip

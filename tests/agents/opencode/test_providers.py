"""Whose model OpenCode asks, with which key, what it takes, and what happens if it is refused."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from agor.protocol.events import Log
from tests.agents.site import KEY, Site
from tests.agents.subjects.base import Step
from tests.agents.subjects.opencode import OPENCODE
from tests.agents.test_one_conversation import results


@pytest.mark.parametrize(
    ("model", "credential", "base_path", "asked"),
    [
        # None is named: that of a provider whose key there is.
        (None, "OPENAI_API_KEY", "/v1", "/v1/responses"),
        ("google/gemini-2.5-pro", "GEMINI_API_KEY", "", "/v1beta/models/gemini-2.5-pro"),
        ("my-own/any-model", "MY_OWN_API_KEY", "/v1", "/v1/chat/completions"),
    ],
)
async def test_a_model_is_asked_with_the_key_of_its_provider(
    site: Site, model: str | None, credential: str, base_path: str, asked: str
):
    async with site.connected(keys={credential: KEY}) as trial:
        trial.answer(approved=True)
        trial.side.base_url = site.model.url + base_path
        script = [OPENCODE.run("echo it-is-$((40+2))")], [{"text": "I see."}]
        result = await trial.prompt("run", *script, model=model)
        assert (result.error, trial.text()) == (None, "I see.")
        assert "it-is-42" in "".join(block.text for block in results(trial))
        assert result.token_usage.output > 0
    assert {call.path.partition(":")[0] for call in site.model.requests} == {asked}


async def test_a_model_without_a_provider_is_refused_before_anything_starts(site: Site):
    async with site.connected() as trial:
        result = await trial.prompt("hello", model="claude-sonnet-4-5")
        assert result.error is not None
        assert result.error.code == "no_such_model"
        assert "anthropic/" in (result.error.hint or "")
        assert site.processes() == {}


async def test_tries_that_fail_are_told_until_it_is_enough(site: Site):
    refusal = {"kind": "overloaded", "retry_after": 0}
    async with site.connected() as trial:
        result = await trial.prompt("fail", [{"error": refusal}])
        assert result.error is not None
        assert result.error.code == "provider_overloaded"
        told = [log.message for log in trial.side.of_kind(trial.tasks[0], Log)]
        assert any(message.startswith("trying again") for message in told)
    # Not waiting, it may try once more before its program is ended.
    assert len(site.model.requests) in (4, 5, 6)


async def test_usage_is_that_of_the_whole_turn_and_cost_that_of_this_turn(site: Site):
    usage: Step = {"usage": {"input": 100_000, "output": 1000}}
    first = [usage, OPENCODE.run("true")], [usage, {"text": "Done."}]
    async with site.connected() as trial:
        trial.answer(approved=True)
        result = await trial.prompt("work", *first)
        assert (result.token_usage.input, result.token_usage.output) == (200_000, 2000)
        assert result.cost == pytest.approx(2 * (0.3 + 0.015))
    conversation = trial.resume
    async with site.connected() as trial:
        trial.resume = conversation
        # A prompt is a prompt, whatever it begins with.
        result = await trial.prompt("/etc/hosts, what is that?", [usage, {"text": "A file."}])
        assert trial.text() == "A file."
        assert result.token_usage.input == 100_000
        assert result.cost == pytest.approx(0.3 + 0.015)


async def test_what_it_runs_finds_no_key_and_its_port_takes_no_stranger(site: Site):
    async with site.connected() as trial:
        trial.answer(approved=True)
        await trial.prompt("look", [OPENCODE.run("env; ls -l /proc/self/fd")], [{"text": "Done."}])
        told = "".join(block.text for block in results(trial))
        assert "AGOR_PROVIDER_KEY_FILE=" in told
        assert KEY not in told
        assert "memfd" not in told
        ports = {port for pid in site.programs() for port in _listening(pid)}
        assert ports
        for port in ports:
            assert _status_of_session_list(port) == b"401"


def _listening(pid: int) -> set[int]:
    sockets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        target = str(descriptor.readlink())
        if target.startswith("socket:["):
            sockets.add(target[8:-1])
    rows = (line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:])
    listening = "0A"
    return {
        int(row[1].rpartition(":")[2], 16)
        for row in rows
        if row[3] == listening and row[9] in sockets
    }


def _status_of_session_list(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(b"GET /session HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        return connection.recv(100).split()[1]

"""`agor model-server` as people meet it: started, asked, ended."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.integration.processes import PATIENCE
from tests.model.asking import CHAT, body_of, scripted

Start = Callable[..., AbstractContextManager["subprocess.Popen[str]"]]


@pytest.fixture
def start(installed, mark) -> Start:
    """Run it with these arguments; it ends with the test."""

    @contextmanager
    def run(*arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            [installed / "agor", "model-server", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=mark.env,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    return run


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def ask(url: str, prompt: str) -> str:
    body = body_of(CHAT, prompt, stream=False)
    answer = httpx.post(
        url + CHAT, json=body, timeout=PATIENCE, headers={"authorization": "Bearer sk-0123456789ab"}
    )
    said: str = answer.json()["choices"][0]["message"]["content"]
    return said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_tells_its_url_answers_and_ends_when_it_is_told_to(start, number):
    with start() as process:
        url = first_line(process)
        assert ask(url, scripted({"text": "Here I am."})) == "Here I am."
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
    assert out == ""
    assert f"ANTHROPIC_BASE_URL={url}\n" in err


def test_it_prints_requests_and_plays_its_own_script(start, tmp_path):
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"text": "From the file."}]))
    with start("--script", script, "--print-requests") as process:
        url = first_line(process)
        assert ask(url, "hi") == "From the file."
        request = json.loads(first_line(process))
    assert (request["number"], request["method"], request["path"]) == (1, "POST", CHAT)
    assert request["body"]["messages"] == [{"role": "user", "content": "hi"}]
    assert request["headers"]["authorization"] == "Bearer …89ab"


def test_it_goes_on_when_nobody_reads_its_requests_any_more(start):
    with start("--print-requests") as process:
        url = first_line(process)
        process.stdout.close()
        assert [ask(url, "hi") for _ in range(2)] == ["echo: hi"] * 2
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize(
    ("text", "told"), [('[{"txt": "a"}]', "model_script[0]"), (None, "cannot read")]
)
def test_a_script_that_cannot_be_used_is_told_in_words(start, tmp_path, text, told):
    script = tmp_path / "script.json"
    if text is not None:
        script.write_text(text)
    with start("--script", script) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert out == ""
    assert told in err

"""The scripted model that both sides ask, in a process of its own, and what it says."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.agents.subjects import Step, Subject
from bench.results import BenchError

STOP_SECONDS = 10
#: A model of the faster ones: milliseconds until it begins, and for a word.
THINKS_MS, WORD_MS = 300, 20

#: What the model says, word by word and as fast as it can: some 200 words.
WORDS = " ".join(
    f"Sentence {number} of this answer says a little more than the one before it."
    for number in range(1, 16)
)


@contextmanager
def model_server(log: Path) -> Iterator[str]:
    """Start `agor model-server` and give its URL."""
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "agor.cli.main", "model-server"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        if not url:
            raise BenchError(f"the model server does not start: {log.read_text()[-2000:]}")
        yield url
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def text_prompt() -> str:
    """Make a prompt that is answered in one go."""
    return _scripted([[{"text": WORDS}]])


def tool_prompt(subject: Subject, file: Path) -> str:
    """Make a prompt whose answer needs a look at a file, so the model is asked twice."""
    return _scripted([[{"text": "A look first."}, subject.read(file)], [{"text": WORDS}]])


def paced_prompt() -> str:
    """Make a prompt that is answered at a pace as that of the faster models."""
    return _scripted([[{"delay_ms": THINKS_MS}, {"pace_ms": WORD_MS}, {"text": WORDS}]])


def _scripted(turns: list[list[Step]]) -> str:
    return f"Please go on. {json.dumps({'model_script': turns})}"

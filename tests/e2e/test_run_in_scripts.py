"""`agor run` without a terminal: plain text, JSON, exit codes, and nothing that waits for ever."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.api.repositories import new_repository
from tests.e2e.people_commands import Agor
from tests.e2e.runs import asks, sessions, tasks, words
from tests.integration.processes import PATIENCE


def test_plain_text_has_everything_and_nothing_that_moves_a_cursor(agor: Agor, tmp_path: Path):
    script = words(
        {"thinking": "Hm."},
        {"text": "# Done\n\n- **all** of it\n"},
        {"run": ["echo", "out\x1b[2Jput"]},
        {"tool": {"name": "Write", "input": {"file_path": "a.txt", "content": "new"}}},
    )
    done = agor(*script, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == ""
    *lines, blank, end = done.stdout.splitlines()
    assert lines == [
        "Hm.", "", "# Done", "", "- **all** of it", "", "● run  echo out[2Jput", "  └ out[2Jput",
        "● Write  a.txt", "    +new",
    ]  # fmt: skip
    assert blank == ""
    assert end.startswith("✓ completed · ")


@pytest.mark.parametrize(
    ("options", "steps", "code"),
    [
        ([], [{"fail": "no luck"}], 1),
        ([], [asks("ls")], 3),
        (["--mode", "bypassPermissions"], [asks("ls")], 0),
        (["--json"], [asks("ls"), {"fail": "no luck"}], 1),
        (["--json", "--timeout", "1s"], [{"delay_ms": 60_000}], 124),
    ],
    ids=["failed", "denied", "mode", "denied-failed", "timeout"],
)
def test_exit_codes_tell_how_it_ended(agor: Agor, tmp_path: Path, options, steps, code):
    done = agor(*words(*steps), *options, cwd=tmp_path)
    assert done.returncode == code, done


def test_a_request_without_a_terminal_is_denied_and_says_how_to_allow_it(
    agor: Agor, tmp_path: Path
):
    done = agor(*words(asks("git status"), {"text": "Then not."}), cwd=tmp_path)
    assert done.returncode == 3
    assert "denied: nobody is there to ask" in done.stdout
    assert "Denied, as there is no terminal to ask at: Bash git status\n" in done.stderr
    advice = next(line for line in done.stderr.splitlines() if "To allow it" in line)
    command = advice.partition("agor ")[2]
    assert f"rule add allow Bash --input 'command=git status' --workspace {tmp_path}" == command
    subprocess.run(
        ["sh", "-c", f"{agor.command} {command} --yes"],
        env=agor.mark.env | agor.env, check=True, timeout=PATIENCE, capture_output=True,
    )  # fmt: skip
    assert agor(*words(asks("git status")), cwd=tmp_path).returncode == 0


def test_questions_can_be_left_to_people_elsewhere(agor: Agor, tmp_path: Path):
    command = [str(agor.command), *words(asks("ls"), {"text": "The end."}), "--ask-elsewhere"]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=agor.mark.env | agor.env, cwd=tmp_path,
    ) as run:  # fmt: skip
        assert run.stderr is not None
        assert run.stderr.readline() == "The agent asks for: Bash ls\n"
        answer = run.stderr.readline().split()
        assert answer[:3] == ["agor", "permission", "allow"]
        agor.done(*answer[1:])
        shown, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0
    assert "The end." in shown


def test_json_is_the_whole_feed_line_by_line(agor: Agor, tmp_path: Path):
    done = agor(*words({"text": "two words"}, asks("ls")), "--json", cwd=tmp_path)
    assert done.returncode == 3
    events = [json.loads(line) for line in done.stdout.splitlines()]
    numbers = [event["sequence"] for event in events]
    assert numbers == list(range(numbers[0], numbers[0] + len(events)))
    text = "".join(e["data"]["text"] for e in events if e["type"] == "block_delta")
    assert "two words" in text
    assert [e["data"]["status"] for e in events if e["type"] == "permission"] == [
        "pending", "denied",
    ]  # fmt: skip
    assert events[-1]["type"] == "task"
    assert events[-1]["data"]["status"] == "completed"


def test_whoever_reads_no_further_does_not_stop_the_task(agor: Agor, tmp_path: Path):
    line = f"{agor.command} run --agent scripted --json - | head -n 1"
    script = json.dumps([{"flood": {"events": 3000, "bytes": 100}}])
    done = subprocess.run(
        ["sh", "-c", line], input=script, env=agor.mark.env | agor.env, cwd=tmp_path,
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert len(done.stdout.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_a_prompt_can_be_piped_and_a_task_left_at_once(agor: Agor, tmp_path: Path):
    assert agor("run", "--agent", "scripted", given="from a pipe", cwd=tmp_path).stdout.startswith(
        "from a pipe\n"
    )
    session_id = agor.done("run", "--agent", "scripted", "-d", "-", given="x", cwd=tmp_path).strip()
    assert sessions(agor, tmp_path)[0]["session_id"] == session_id
    ids = json.loads(
        agor.done("run", "--agent", "scripted", "--detach", "--json", "x", cwd=tmp_path)
    )
    assert tasks(agor, tmp_path)[0]["task_id"] == ids["task_id"]


def test_a_worktree_is_made_of_a_repository_that_was_not_known(agor: Agor, tmp_path: Path):
    repo = new_repository(tmp_path / f"shop-{os.getpid()}")
    (repo / "below").mkdir()
    command = words({"run": ["sh", "-c", "git branch --show-current; cat file"]})
    done = agor(*command, "--worktree", cwd=repo / "below")
    assert done.returncode == 0, done.stderr
    assert "└ agor/" in done.stdout
    assert "    one\n" in done.stdout
    path = Path(done.stderr.removeprefix("working in ").strip())
    assert path != repo
    assert agor(*command, "--worktree", cwd=repo).returncode == 0, "it is known by now"

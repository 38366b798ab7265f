"""Whatever is stopped or killed, nothing of another Unix user's executor is left in the end."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.integration.pool_process import PoolProcess
from tests.integration.processes import wait_nobody
from tests.integration.unix_users import (
    TestUser,
    parent_of,
    processes_of,
    sudo_rules,
    wait_ended,
)

#: What a task does to be hard to end; whatever it starts says so once it is there.
OBSTINATE = """
trap '' TERM INT HUP
setsid nohup sh -c 'echo [1]; exec sleep 1000' 2>/dev/null &
env -i setsid sh -c 'trap "" TERM; (sh -c "echo [2]; exec sleep 1001" &); echo [3]; sleep 1002' &
(setsid sh -c 'setsid sh -c "echo [4]; exec sleep 1003" &')
echo [5]
while :; do sleep 1004; done
"""


def begin_obstinate(pool: PoolProcess, user: TestUser, shell: str = OBSTINATE) -> dict[str, Any]:
    """Have an executor, for session a, with a task that does all it can to stay."""
    acquired: dict[str, Any] = pool.ask("acquire", session="a", unix_user=user.name)
    script = [{"run": ["sh", "-c", shell]}]
    pool.ask("prompt", session="a", task="t", script=script, cwd="/")
    for number in range(1, 6):
        pool.ask("said", task="t", text=f"[{number}]")
    return acquired | {"launcher": parent_of(acquired["keeper"])}


def arguments_of(pid: int) -> list[bytes] | None:
    """Read a process's arguments, but for what tells one launcher from another; None if gone."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return [argument for argument in arguments if argument != b"--preload"]


def others(user: TestUser, acquired: dict[str, Any]) -> set[int]:
    """Find a user's processes, except launchers and what they forked for the next task.

    A launcher's children have its arguments, so those of the executor that ended are named.
    """
    own = arguments_of(acquired["launcher"])
    ended = {acquired["keeper"], acquired["executor"]}
    return {
        pid
        for pid in processes_of(user.uid)
        if pid in ended or arguments_of(pid) not in (own, None)
    }


def test_stopping_an_executor_that_does_all_to_stay_leaves_nothing(pool, anna, ben):
    acquired = begin_obstinate(pool, anna)
    pool.ask("acquire", session="b", unix_user=ben.name)
    assert len(processes_of(anna.uid)) >= 8
    ending = pool.ask("stop", session="a")
    assert ending["survivors"] == 0
    # A launcher that is just being started has not its own arguments yet.
    wait_nobody(lambda: others(anna, acquired))
    assert pool.run("b", "echo", "unharmed") == "unharmed\n"
    pool.close()
    assert processes_of(anna.uid) == processes_of(ben.uid) == set()


@pytest.mark.parametrize(
    "victims", [["launcher"], ["keeper"], ["executor"], ["launcher", "keeper"]], ids="-".join
)
def test_whatever_is_killed_nothing_is_left_once_the_pool_is_closed(site, anna, victims):
    pool = site.pool(spare_executors=1)
    cgroups = "cgroup v2 in" in pool.ask("open")["backend"]
    # With both dead and no cgroup, only its mark tells whose an orphan is.
    keep_mark = len(victims) > 1 and not cgroups
    shell = OBSTINATE.replace("env -i ", "") if keep_mark else OBSTINATE
    acquired = begin_obstinate(pool, anna, shell)
    for victim in victims:
        os.kill(acquired[victim], signal.SIGKILL)
    if victims == ["launcher"]:
        assert pool.run("a", "echo", "it goes on") == "it goes on\n"
    else:
        assert pool.ask("ended", session="a")["survivors"] == 0
    # And the next one finds all in order.
    assert pool.ask("acquire", session="next", unix_user=anna.name)["unix_user"] == anna.name
    pool.close()
    assert processes_of(anna.uid) == set()


def test_with_its_sudo_killed_a_launcher_is_still_ours_to_use_and_to_end(by_sudo, machine, anna):
    with sudo_rules(*machine.rules):
        pool = by_sudo.pool(spare_executors=1)
        pool.ask("open")
        acquired = begin_obstinate(pool, anna)
        sudo = parent_of(acquired["launcher"])
        assert parent_of(sudo) == pool.pid
        os.kill(sudo, signal.SIGKILL)
        wait_ended(sudo)
        again = pool.ask("acquire", session="another", unix_user=anna.name)
        assert parent_of(again["keeper"]) == acquired["launcher"]
        pool.close()
        assert processes_of(anna.uid) == set()


def test_a_pool_that_was_killed_and_comes_back_takes_over_what_runs(site, pool, anna, ben):
    fifo = anna.home / "fifo"
    before = {}
    for user in (anna, ben):
        before[user.name] = pool.ask("acquire", session=user.name, unix_user=user.name)
    pool.run(anna.name, "mkfifo", str(fifo))
    words = f"echo before; cat {fifo}; echo after"
    script = [{"run": ["sh", "-c", words]}]
    pool.ask("prompt", session=anna.name, task="long", script=script, cwd="/")
    pool.ask("said", task="long", text="before")
    pool.kill()

    pool = site.pool()
    found = {one["session"]: one for one in pool.ask("open")["taken_back"]}
    assert {name: one["unix_user"] for name, one in found.items()} == {n: n for n in before}
    assert found[anna.name]["tasks"] == {"long": "running"}
    fifo.write_text("from the test\n")
    result = pool.ask("result", task="long")
    assert result["status"] == "completed"
    assert result["text"].endswith("from the test\nafter\n")
    for user in (anna, ben):
        again = pool.ask("acquire", session=user.name, unix_user=user.name)
        assert again == before[user.name] | {"tasks": again["tasks"]}
        assert pool.run(user.name, "id", "-un").strip() == user.name
    pool.close()
    assert processes_of(anna.uid) == processes_of(ben.uid) == set()


def test_what_a_killed_pool_left_ends_with_the_next_one(site, pool, anna):
    begin_obstinate(pool, anna)
    pool.kill()
    assert len(processes_of(anna.uid)) >= 8
    pool = site.pool()
    assert len(pool.ask("open")["taken_back"]) == 1
    assert pool.ask("stop", session="a")["survivors"] == 0
    pool.close()
    assert processes_of(anna.uid) == set()


def test_an_executor_that_nobody_remembers_is_ended_whoever_it_runs_as(site, pool, anna):
    begin_obstinate(pool, anna)
    pool.kill()
    shutil.rmtree(site.folder / "run.records")
    pool = site.pool()
    assert pool.ask("open")["taken_back"] == []
    pool.close()
    assert processes_of(anna.uid) == set()
    assert list((pool.runtime / "executors").iterdir()) == []

"""What is true of the local environment only: whose rights are used, and what is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agor.environments import files_by_exec, files_directly
from agor.environments.base import Change
from agor.environments.identity import UnixIdentity
from agor.environments.impersonation import plan_launch
from agor.environments.local import LocalEnvironment
from agor.environments.registry import factory_of, register_kind
from agor.environments.tree_watch import TreeWatch
from agor.errors import BadInput, EnvironmentFailed
from tests.contract.descriptors import open_files
from tests.contract.local_environments import (
    SUDO_USER,
    as_root,
    local_environment,
    new_folder,
    new_user,
    through_sudo,
)
from tests.contract.waiting import soon, until


@pytest.fixture(scope="module")
def somebody() -> Iterator[UnixIdentity]:
    with new_user() as made:
        yield made


@pytest.fixture
def our_secret(tmp_path: Path) -> Path:
    """A file that only we may read, in a folder that only we may enter."""
    secret = tmp_path / "secret"
    secret.write_text("do not tell")
    secret.chmod(0o600)
    tmp_path.chmod(0o700)
    return secret


async def test_commands_and_watches_leave_no_descriptor_and_no_task():
    async with local_environment() as environment:
        await soon(environment.run(["true"]))
        tasks, files = asyncio.all_tasks(), open_files()
        for _ in range(50):
            await soon(environment.run(["cat"], b"some"))
            watch = await soon(environment.watch(".", print))
            await soon(watch.unwatch())
        await until(lambda: asyncio.all_tasks() <= tasks)
        assert open_files() == files


async def test_terminating_closes_what_nobody_closed():
    await soon(asyncio.to_thread(print, end=""))
    tasks, files = asyncio.all_tasks(), open_files()
    async with local_environment() as environment:
        for _ in range(3):
            await soon(environment.exec(["sleep", "1000"]))
            await soon(environment.watch(".", print))
    await until(lambda: asyncio.all_tasks() <= tasks)
    assert open_files() == files


async def test_a_process_in_a_session_of_its_own_has_left_the_group_and_goes_on():
    async with local_environment() as environment:
        await soon(environment.run(["mkfifo", "told"]))
        script = "setsid sh -c 'echo $$ > told; exec sleep 1000' & cat told"
        done = await soon(environment.run(["sh", "-c", script]))
        pid = int(done.stdout)
        assert os.getsid(pid) == pid
        # Whoever wants it gone needs more than the group: the pool's launcher, or a cgroup.
        os.kill(pid, signal.SIGKILL)


async def test_what_commands_make_has_the_permissions_of_a_login():
    async with local_environment() as environment:
        done = await soon(environment.run(["sh", "-c", "umask; touch a; stat -c %a a"]))
        assert done.stdout == b"0022\n644\n"


async def test_the_runtime_folder_is_private_and_goes_in_the_end():
    async with local_environment() as environment:
        runtime = Path((await environment.get_base_paths()).runtime)
        assert runtime.stat().st_mode & 0o777 == 0o700
        assert (await environment.get_base_paths()).runtime == str(runtime)
    assert not runtime.exists()


async def test_a_runtime_folder_that_is_given_stays(tmp_path: Path):
    environment = await LocalEnvironment.create(str(tmp_path), runtime=str(tmp_path / "run"))
    assert (await environment.get_base_paths()).runtime == str(tmp_path / "run")
    (tmp_path / "run").mkdir()
    await soon(environment.terminate())
    assert (tmp_path / "run").exists()


async def test_a_workspace_that_is_not_there_is_refused_and_named(tmp_path: Path):
    with pytest.raises(EnvironmentFailed, match="missing") as refused:
        await soon(LocalEnvironment.create(str(tmp_path / "missing")))
    assert refused.value.hint
    with pytest.raises(BadInput, match="absolute"):
        await soon(LocalEnvironment.create("relative"))


@pytest.mark.parametrize("who", ["ourselves", pytest.param("somebody", marks=as_root)])
async def test_a_file_that_is_too_large_is_refused_and_named(
    who: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(files_directly, "MAX_FILE", 1000)
    monkeypatch.setattr(files_by_exec, "MAX_FILE", 1000)
    identity = request.getfixturevalue("somebody") if who == "somebody" else None
    async with local_environment(identity) as environment:
        await soon(environment.write_files({"fits": bytes(1000), "large": bytes(100_000)}))
        assert len(await soon(environment.read_file("fits"))) == 1000
        with pytest.raises(EnvironmentFailed, match="/large has more than 1000 bytes"):
            await soon(environment.read_file("large"))


async def test_without_descriptors_nothing_is_started_and_none_is_lost():
    async with local_environment() as environment:
        await soon(environment.run(["true"]))
        files = open_files()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # The numbers in use may be high and with gaps: take what is left, down to a few.
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, files)) + 10, hard))
        try:
            for spare in range(9):
                taken = _take_descriptors(but=spare)
                try:
                    with contextlib.suppress(EnvironmentFailed):
                        await soon(environment.run(["true"]))
                finally:
                    for fd in taken:
                        os.close(fd)
                assert open_files() == files
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _take_descriptors(but: int) -> list[int]:
    """Open as many files as there may be, less some."""
    taken = []
    with contextlib.suppress(OSError):
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    for _ in range(but):
        os.close(taken.pop())
    return taken


async def test_when_the_kernel_dropped_events_everything_is_looked_at(tmp_path: Path):
    for name in ("changed", "deleted", "same"):
        (tmp_path / "folder" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "folder" / name).write_text(name)
    told: list[Change] = []
    watch = TreeWatch(str(tmp_path), told.extend)
    watch.on_event = lambda number, name: None  # type: ignore[method-assign]
    await soon(watch.start())
    (tmp_path / "folder" / "changed").write_text("other")
    (tmp_path / "folder" / "deleted").unlink()
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "added").write_text("")
    watch.on_overflow()
    await until(lambda: told)
    await soon(watch.unwatch())
    assert {(change.kind, str(Path(change.path).relative_to(tmp_path))) for change in told} == {
        ("changed", "folder/changed"),
        ("deleted", "folder/deleted"),
        ("added", "new"),
        ("added", "new/added"),
    }


async def test_a_very_deep_tree_is_watched(tmp_path: Path):
    deep = "/".join("d" * 900)
    async with local_environment() as environment:
        told: list[Change] = []
        workspace = (await environment.get_base_paths()).workspace
        await soon(environment.watch(".", told.extend))
        await soon(environment.write_file(f"{deep}/file", b""))
        await until(lambda: Change("added", f"{workspace}/{deep}/file") in told)
        await soon(environment.run(["rm", "-r", "d"]))
        await until(lambda: Change("deleted", f"{workspace}/d") in told)


@as_root
async def test_another_user_gets_nothing_of_our_rights(somebody: UnixIdentity, our_secret: Path):
    async with local_environment(somebody) as environment:
        ids = await soon(environment.run(["sh", "-c", "id -u; id -g; id -G; echo $HOME $USER"]))
        groups = " ".join(map(str, somebody.groups))
        assert ids.stdout.decode() == (
            f"{somebody.uid}\n{somebody.gid}\n{groups}\n{somebody.home} {somebody.name}\n"
        )
        await soon(environment.run(["ln", "-s", str(our_secret), "link"]))
        await soon(environment.run(["ln", "-s", str(our_secret.parent), "folder"]))
        for refused in (
            environment.read_file("link"),
            environment.read_file(str(our_secret)),
            environment.read_file("folder/secret"),
            environment.write_file("folder/secret", b"overwritten"),
            environment.write_file("folder/new", b""),
            environment.list_files("folder"),
            environment.watch(str(our_secret), print),
        ):
            with pytest.raises(EnvironmentFailed):
                await soon(refused)
        inside = await soon(environment.run(["pwd"], cwd="folder"))
        assert inside.exit_code == 126
        assert our_secret.read_text() == "do not tell"
        assert [entry.name for entry in our_secret.parent.iterdir()] == ["secret"]


@as_root
async def test_a_link_placed_by_another_user_is_not_written_through(
    somebody: UnixIdentity, our_secret: Path
):
    async with local_environment(somebody) as environment:
        await soon(environment.run(["ln", "-s", str(our_secret), "link"]))
        await soon(environment.write_file("link", b"mine"))
        assert await soon(environment.read_file("link")) == b"mine"
        assert our_secret.read_text() == "do not tell"


@as_root
async def test_another_user_can_open_its_own_streams(somebody: UnixIdentity):
    async with local_environment(somebody) as environment:
        script = "cat /dev/stdin > /dev/stdout; echo oops > /dev/stderr"
        done = await soon(environment.run(["sh", "-c", script], b"hello"))
        assert (done.exit_code, done.stdout, done.stderr) == (0, b"hello", b"oops\n")


@as_root
async def test_a_workspace_that_is_closed_to_the_user_is_refused(
    somebody: UnixIdentity, our_secret: Path
):
    with pytest.raises(EnvironmentFailed, match=f"{somebody.name} cannot work in"):
        await soon(LocalEnvironment.create(str(our_secret.parent), somebody))


@through_sudo
async def test_through_sudo_no_variable_is_an_argument():
    async with local_environment(UnixIdentity.of(SUDO_USER)) as environment:
        script = "echo $SECRET; cat; cat /proc/$PPID/cmdline /proc/$$/cmdline; env"
        done = await soon(
            environment.run(["sh", "-c", script], b"in\n", env={"SECRET": "do-not-tell"})
        )
        assert done.stdout.startswith(b"do-not-tell\nin\n")
        assert done.stdout.count(b"do-not-tell") == 2  # said by echo and by env
        assert b"\nSUDO_" not in done.stdout


@through_sudo
async def test_sudo_that_refuses_is_refused_with_the_line_to_add():
    nobody = UnixIdentity.of("daemon")
    with pytest.raises(EnvironmentFailed, match="cannot run commands as daemon") as refused:
        await soon(LocalEnvironment.create("/", nobody))
    assert refused.value.hint is not None
    assert "ALL=(daemon) NOPASSWD: ALL" in refused.value.hint


def test_through_sudo_a_large_environment_is_refused():
    stranger = UnixIdentity("stranger", 2**31 - 7, 1, (), "/", "/bin/sh")
    if os.geteuid() == 0:
        pytest.skip("root needs no sudo")
    with pytest.raises(BadInput, match="60000"):
        plan_launch(stranger, ["true"], {"LARGE": "x" * 60_000}, "/")


async def test_a_kind_is_found_by_its_name():
    with new_folder(UnixIdentity.current()) as workspace:
        environment = await soon(factory_of("local")(workspace))
        assert (await environment.get_id()).startswith("local-")
        await soon(environment.terminate())


def test_an_unknown_kind_is_refused_with_those_there_are():
    with pytest.raises(BadInput, match="'moon'") as refused:
        factory_of("moon")
    assert refused.value.hint == "Known kinds: local."
    with pytest.raises(BadInput, match="already"):
        register_kind("local", lambda: LocalEnvironment.create)

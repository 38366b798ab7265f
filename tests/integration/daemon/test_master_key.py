"""Where the master key comes from, and that it is never lost, given away or silently replaced."""

from __future__ import annotations

import base64
import os
import stat
import subprocess
from functools import partial
from pathlib import Path

import pytest

from agor.config.keys import CredentialsConfig
from agor.daemon.services.credentials.key_sources import (
    VARIABLE,
    KeyCommand,
    KeyFile,
    KeyVariable,
    source_of,
    take_variable,
)
from agor.daemon.services.credentials.master_key import MasterKey
from agor.errors import BadConfig, MasterKeyUnusable
from agor.home import Home
from tests.contract.waiting import until
from tests.integration.daemon.asker import Asker
from tests.integration.daemon.in_process import desk_in
from tests.integration.daemon.key_desk import ANN, BOB, KeyDesk, invite

KEY = "ANTHROPIC_API_KEY"
TEXT = base64.b64encode(b"SECRETSECRETSECRETSECRETSECRET32").decode()


def settings(**more: str) -> dict[str, str]:
    return {f"credentials__{name}": value for name, value in more.items()}


# ── the file ─────────────────────────────────────────────────────────────────────────────────


async def test_the_file_is_made_at_first_need_and_for_its_owner_only(folder: Path):
    asker = Asker()
    path = folder / "home" / "master.key"
    async with desk_in(folder, asker.make) as desk:
        ann = KeyDesk(desk, asker)
        assert await ann.kept() == []
        assert not path.exists(), "nobody needs it yet"
        await ann.keep(KEY)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    async with desk_in(folder, asker.make) as desk:
        assert (await KeyDesk(desk, asker).ask(KEY)).api_key == "sk-0123456789-LAST"
    assert path.read_bytes() == before


async def test_what_is_saved_is_there_whole_and_for_its_owner_only(tmp_path: Path):
    source = KeyFile(tmp_path / "k")
    assert await source.load() is None
    key = MasterKey.fresh()
    for each in (key, key.with_next(), key):
        await source.save(each)
        found = await source.load()
        assert found is not None
        assert found.spell() == each.spell()
    assert [path.name for path in tmp_path.iterdir()] == ["k"]
    assert stat.S_IMODE((tmp_path / "k").stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o602, 0o660])
async def test_a_file_that_others_could_read_is_refused(tmp_path: Path, mode: int):
    source = KeyFile(tmp_path / "k")
    await source.save(MasterKey.fresh())
    (tmp_path / "k").chmod(mode)
    with pytest.raises(MasterKeyUnusable, match="could be read by others") as caught:
        await source.load()
    assert f"chmod 600 {tmp_path / 'k'}" in str(caught.value.hint)


async def test_a_link_a_folder_and_a_pipe_are_refused(tmp_path: Path):
    await KeyFile(tmp_path / "real").save(MasterKey.fresh())
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "nowhere").symlink_to(tmp_path / "not-there")
    (tmp_path / "folder").mkdir(mode=0o700)
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("link", "nowhere", "folder", "pipe"):
        with pytest.raises(MasterKeyUnusable, match=r"it is a link|is not a file"):
            await KeyFile(tmp_path / name).load()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
async def test_a_file_of_somebody_else_is_refused(tmp_path: Path):
    source = KeyFile(tmp_path / "k")
    await source.save(MasterKey.fresh())
    os.chown(tmp_path / "k", 12345, 12345)
    with pytest.raises(MasterKeyUnusable, match="belongs to another user"):
        await source.load()


async def test_a_folder_in_which_others_could_change_the_file_is_refused(tmp_path: Path):
    source = KeyFile(tmp_path / "k")
    await source.save(MasterKey.fresh())
    tmp_path.chmod(0o777)
    with pytest.raises(MasterKeyUnusable, match="others could put another file"):
        await source.load()


async def test_what_is_in_the_file_and_is_no_key_is_not_repeated(tmp_path: Path):
    for text in (b"SECRET", b"1:SECRET", b"\xff\xfeSECRET", b"SECRET" * 100_000):
        (tmp_path / "k").write_bytes(text)
        (tmp_path / "k").chmod(0o600)
        with pytest.raises(MasterKeyUnusable) as caught:
            await KeyFile(tmp_path / "k").load()
        assert "SECRET" not in f"{caught.value} {caught.value.hint}"


async def test_a_key_that_is_lost_is_told_and_never_replaced(folder: Path):
    """A new one in its place would mean that nobody ever opens anything again."""
    asker = Asker()
    path = folder / "home" / "master.key"
    async with desk_in(folder, asker.make) as desk:
        await KeyDesk(desk, asker).keep(KEY)
    kept = path.rename(folder / "kept")
    async with desk_in(folder, asker.make) as desk:
        ann = KeyDesk(desk, asker)
        check = next(each for each in desk.daemon.health().checks if each.name == "credentials")
        assert not check.ok
        assert "1 credentials are sealed with the master key" in check.detail
        with pytest.raises(MasterKeyUnusable, match=f"and {path} does not have it"):
            await ann.keep("ANOTHER")
        with pytest.raises(Exception, match="does not have it") as caught:
            await ann.ask(KEY)
        assert "Put it back from your copy" in str(caught.value.hint)  # type: ignore[attr-defined]
        assert not path.exists()
        # It is put back while the daemon runs.
        kept.rename(path)
        assert (await ann.ask(KEY)).api_key == "sk-0123456789-LAST"
        assert all(each.ok for each in desk.daemon.health().checks)


async def test_what_cannot_be_opened_can_still_be_deleted_and_then_begun_anew(folder: Path):
    asker = Asker()
    async with desk_in(folder, asker.make) as desk:
        await KeyDesk(desk, asker).keep(KEY)
    (folder / "home" / "master.key").unlink()
    async with desk_in(folder, asker.make) as desk:
        ann = KeyDesk(desk, asker)
        await ann.delete(KEY)
        await ann.keep(KEY, "sk-anew-0123456789")
        assert (await ann.ask(KEY)).api_key == "sk-anew-0123456789"


async def test_a_key_that_is_lost_for_good_can_be_given_up_in_so_many_words(folder: Path):
    asker = Asker()
    await invite(folder, ANN, BOB)
    async with desk_in(folder, asker.make) as desk:
        await KeyDesk(desk, asker, BOB).keep(KEY)
    (folder / "home" / "master.key").unlink()
    async with desk_in(folder, asker.make) as desk:
        ann, bob = KeyDesk(desk, asker), KeyDesk(desk, asker, BOB)
        with pytest.raises(MasterKeyUnusable, match="does not have it"):
            await desk.daemon.rotations.begin(ann.who)
        begun = await desk.daemon.rotations.begin(ann.who, lost=True)
        assert (begun.version, begun.left) == (2, 1)
        await ann.keep(KEY, "sk-anew-0123456789")
        assert (await ann.ask(KEY)).api_key == "sk-anew-0123456789"
        with pytest.raises(Exception, match="version 1 of the master key"):
            await bob.ask(KEY)
        await bob.keep(KEY)
        assert (await bob.ask(KEY)).api_key == "sk-0123456789-LAST"


async def test_to_give_up_a_key_that_is_there_gives_up_nothing(folder: Path):
    asker = Asker()
    async with desk_in(folder, asker.make) as desk:
        ann = KeyDesk(desk, asker)
        await ann.keep(KEY)
        await desk.daemon.rotations.begin(ann.who, lost=True)
        assert (await ann.ask(KEY)).api_key == "sk-0123456789-LAST"


async def test_another_key_under_the_same_number_is_noticed(folder: Path):
    """Else half of the credentials would be sealed with one and half with the other."""
    asker = Asker()
    async with desk_in(folder, asker.make) as desk:
        await KeyDesk(desk, asker).keep(KEY)
    await KeyFile(folder / "home" / "master.key").save(MasterKey.fresh())
    async with desk_in(folder, asker.make) as desk:
        with pytest.raises(MasterKeyUnusable, match="is another key"):
            await KeyDesk(desk, asker).keep("ANOTHER")


# ── the variable ─────────────────────────────────────────────────────────────────────────────


async def test_the_variable_is_taken_out_of_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(VARIABLE, f"3:{TEXT}")
    asker = Asker()
    async with desk_in(folder, asker.make, **settings(master_key="environment")) as desk:
        assert VARIABLE not in os.environ
        inherited = subprocess.run(["env"], capture_output=True, text=True, check=True)
        assert TEXT not in inherited.stdout
        ann = KeyDesk(desk, asker)
        await ann.keep(KEY)
        assert (await ann.ask(KEY)).api_key == "sk-0123456789-LAST"
    assert not (folder / "home" / "master.key").exists()


async def test_a_variable_that_is_not_used_is_taken_out_as_well():
    env = {VARIABLE: TEXT, "OTHER": "1"}
    assert take_variable(env) == TEXT
    assert env == {"OTHER": "1"}
    assert take_variable(env) is None


@pytest.mark.parametrize("text", [None, ""])
async def test_a_variable_that_is_not_there_is_told(text: str | None):
    with pytest.raises(MasterKeyUnusable, match="AGOR_MASTER_KEY is not set"):
        await KeyVariable(text).load()


# ── the command ──────────────────────────────────────────────────────────────────────────────


async def test_a_command_can_give_the_key(folder: Path):
    script = folder / "vault"
    script.write_text(f"#!/bin/sh\necho 2:{TEXT}\n")
    script.chmod(0o700)
    asker = Asker()
    given = settings(master_key="command", key_command=f"{script} --now 'with spaces'")
    async with desk_in(folder, asker.make, **given) as desk:
        ann = KeyDesk(desk, asker)
        await ann.keep(KEY)
        assert (await ann.ask(KEY)).api_key == "sk-0123456789-LAST"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f"sh -c 'echo {TEXT}; echo {TEXT} >&2; exit 3'", r"failed \(exit code 3\)"),
        (f"sh -c 'echo {TEXT} >&2'", "holds no master key"),
        (f"sh -c 'echo SECRET{TEXT}'", "entry 1 is no master key"),
        ("/not/there", "cannot be started: No such file"),
        ("yes SECRET", "prints too much"),
        ("sh -c 'sleep 1000 & sleep 1000'", "did not end within 0.3 s"),
        ("sh -c 'sleep 1000 & exit 0'", "did not end within 0.3 s"),
    ],
)
async def test_a_command_that_fails_is_told_without_the_key(command: str, said: str):
    seconds = 0.3 if "sleep" in command else 20.0
    with pytest.raises(MasterKeyUnusable, match=said) as caught:
        await KeyCommand(command, seconds).load()
    assert "SECRET" not in f"{caught.value} {caught.value.hint}"
    assert TEXT not in f"{caught.value} {caught.value.hint}"


def has_ended(pid: str) -> bool:
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


async def test_a_command_that_hangs_is_ended_with_all_it_started(folder: Path):
    marks = folder / "pids"
    inner = f"sh -c 'echo $$ >> {marks}; exec sleep 1000' & echo $$ >> {marks}; wait"
    (folder / "script").write_text(inner)
    with pytest.raises(MasterKeyUnusable, match="did not end"):
        await KeyCommand(f"sh {folder / 'script'}", 2).load()
    for pid in marks.read_text().split():
        # It was killed; the kernel may take a moment.
        await until(partial(has_ended, pid))


async def test_a_source_that_is_not_described_is_refused(folder: Path):
    config = CredentialsConfig(master_key="command")
    with pytest.raises(BadConfig, match="key_command is not set"):
        source_of(config, Home(folder), None)

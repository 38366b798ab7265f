"""What is installed is whole, is what was meant, and is found; what fails changes nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agor.agents.environment import find_program
from agor.errors import InstallFailed
from agor.installing.folder import AgentsFolder
from agor.installing.install import install
from agor.installing.looking import look
from agor.installing.trying import try_program
from tests.installing.registry import NAME, Registry, tiny_agent


def version_in(folder: AgentsFolder) -> str | None:
    """Ask the program that is in use."""
    return try_program(folder.path / "bin" / "tiny").version


def installed(folder: AgentsFolder) -> set[str]:
    return {path.name.rpartition("-")[0] for path in (folder.path / "installed").iterdir()}


def test_it_is_found_where_executors_look(registry: Registry, folder, monkeypatch):
    done = install(tiny_agent(), folder, lock=registry.publish("1.0.0"))
    assert (done.version, done.ours, done.why_not) == ("1.0.0", True, None)
    monkeypatch.setenv("AGOR_AGENTS", str(folder.path))
    assert find_program("tiny") == done.path
    assert version_in(folder) == "1.0.0"


def test_no_script_of_a_package_is_run(registry: Registry, folder, tmp_path):
    install(tiny_agent(), folder, lock=registry.publish("1.0.0"))
    assert not (tmp_path / "script-ran").exists()


def test_what_is_there_and_starts_is_left_alone(registry: Registry, folder):
    lock = registry.publish("1.0.0")
    begun: list[str] = []
    for _ in range(2):
        install(tiny_agent(), folder, lock=lock, on_begin=lambda: begun.append("begun"))
    assert registry.downloads == ["1.0.0"]
    assert begun == ["begun"]


def test_what_does_not_start_any_more_is_replaced(registry: Registry, folder):
    lock = registry.publish("1.0.0")
    done = install(tiny_agent(), folder, lock=lock)
    assert done.path is not None
    done.path.resolve().write_text("#!/bin/sh\nexit 3\n")
    install(tiny_agent(), folder, lock=lock)
    assert version_in(folder) == "1.0.0"


def test_of_older_versions_only_the_last_is_kept_for_agents_that_still_run(
    registry: Registry, folder
):
    for version in ("1.0.0", "1.1.0", "1.2.0"):
        install(tiny_agent(version), folder, lock=registry.publish(version))
        assert version_in(folder) == version
    assert installed(folder) == {"tiny-1.1.0", "tiny-1.2.0"}


def test_a_version_that_does_not_start_never_takes_the_place_of_one_that_does(
    registry: Registry, folder
):
    install(tiny_agent(), folder, lock=registry.publish("1.0.0"))
    broken = registry.publish("2.0.0", "#!/bin/sh\necho no libc for you >&2; exit 127\n")
    with pytest.raises(InstallFailed, match=r"of no use here: .*no libc for you"):
        install(tiny_agent("2.0.0"), folder, lock=broken)
    assert version_in(folder) == "1.0.0"
    assert installed(folder) == {"tiny-1.0.0"}


def test_what_is_not_what_the_lock_file_says_is_refused(registry: Registry, folder):
    lock = registry.publish("1.0.0")
    registry.publish("1.0.0", "#!/bin/sh\necho evil 1.0.0\n")
    with pytest.raises(InstallFailed, match="not what this version of agor knows"):
        install(tiny_agent(), folder, lock=lock)
    assert look(tiny_agent(), folder).path is None
    assert installed(folder) == set()


def test_a_registry_that_is_not_there_is_told(registry: Registry, folder, monkeypatch):
    lock = registry.publish("1.0.0")
    monkeypatch.setenv("npm_config_registry", "http://me:canary-of-a-token@127.0.0.1:9")
    with pytest.raises(InstallFailed, match="the npm registry cannot be reached") as caught:
        install(tiny_agent(), folder, lock=lock)
    assert caught.value.hint
    assert "npm config get registry" in caught.value.hint
    assert "connect ECONNREFUSED 127.0.0.1:9" in str(caught.value)
    assert "canary" not in str(caught.value)


def test_a_registry_that_does_not_have_it_is_told(registry: Registry, folder):
    lock = registry.publish("1.0.0")
    registry.forget("1.0.0")
    with pytest.raises(InstallFailed, match="the registry does not have it"):
        install(tiny_agent(), folder, lock=lock)


def test_settings_of_npm_cannot_switch_the_lock_file_off(registry: Registry, folder, monkeypatch):
    lock = registry.publish("1.0.0")
    registry.publish("1.0.0", "#!/bin/sh\necho evil 1.0.0\n")
    monkeypatch.setenv("npm_config_package_lock", "false")
    with pytest.raises(InstallFailed, match="not what this version of agor knows"):
        install(tiny_agent(), folder, lock=lock)


def test_others_can_read_it_whatever_our_umask_is(registry: Registry, folder):
    lock, before = registry.publish("1.0.0"), os.umask(0o077)
    try:
        done = install(tiny_agent(), folder, lock=lock)
    finally:
        os.umask(before)
    assert done.path is not None
    program = done.path.resolve()
    wanted = stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH
    above = [path for path in program.parents if folder.path.parent in (path, *path.parents)]
    assert folder.path in above
    for path in (program, *above):
        assert path.stat().st_mode & wanted == wanted, path
    assert (program.parent / "package.json").stat().st_mode & stat.S_IROTH


def test_without_npm_it_says_what_to_install(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        InstallFailed, match=r"needs Node.js 16 or newer, and there is none"
    ) as none:
        install(tiny_agent(), folder, lock=b"{}")
    assert none.value.hint
    assert "apt-get install nodejs npm" in none.value.hint


@pytest.mark.parametrize(("version", "accepted"), [("v12.22.0", False), ("v16.0.0", True)])
def test_a_node_that_is_too_old_is_told_before_anything_is_downloaded(
    folder, monkeypatch, tmp_path, version, accepted
):
    node = tmp_path / "node"
    node.write_text(f"#!/bin/sh\necho {version}\n")
    node.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}")
    why = "there is no npm on the path" if accepted else "16 or newer, and this is 12.22.0"
    with pytest.raises(InstallFailed, match=why):
        install(tiny_agent(), folder, lock=b"{}")


def test_a_folder_that_cannot_be_is_told_with_the_setting(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(InstallFailed, match="cannot install into") as caught:
        install(tiny_agent(), AgentsFolder(tmp_path / "file" / "agents"), lock=b"{}")
    assert caught.value.hint
    assert "execution.agents_folder" in caught.value.hint


def test_a_disk_that_is_full_is_told(folder, monkeypatch, tmp_path):
    for name, text in (
        ("node", "echo v22.0.0"),
        ("npm", "echo 'npm error code ENOSPC\nnpm error syscall write' >&2; exit 228"),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    lock = b'{"packages": {"": {"dependencies": {}}}}'
    with pytest.raises(InstallFailed, match="the disk is full"):
        install(tiny_agent(), folder, lock=lock)
    assert installed(folder) == set()


def test_one_that_somebody_put_on_the_path_counts_with_its_own_version(
    folder, monkeypatch, tmp_path
):
    for name, text in (("node", "echo v22.0.0"), ("tiny", "echo tiny 0.9.1")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = look(tiny_agent(), folder)
    assert (found.version, found.ours, found.as_pinned) == ("0.9.1", False, False)
    assert found.path == tmp_path / "tiny"
    assert not folder.path.exists(), f"looking for {NAME} makes nothing"

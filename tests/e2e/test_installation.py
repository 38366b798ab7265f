"""agor as `pipx install .` would install it: a wheel in an environment of its own, not editable.

The dependencies are those of this environment, so that nothing has to be fetched.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import agor
from agor.cli import background
from tests.e2e.people_commands import Agor
from tests.integration.control_groups import remove_groups
from tests.integration.processes import Mark

ROOT = Path(__file__).parents[2]
#: Seconds to build and install a wheel on a busy machine.
LONG = 100


def run(*command: str | Path) -> str:
    env = os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG, env=env, cwd="/")
    assert done.returncode == 0, f"{command}:\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet")
    run(*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def commands(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands that were installed from the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    packages = next(folder.glob("lib/python*/site-packages"))
    # A folder that is named in a .pth file has its own .pth files passed over: those would
    # bring the working tree along.
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", wheel)
    where = run(python, "-P", "-c", "import agor; print(agor.__file__)")
    assert Path(where.strip()).is_relative_to(packages)
    return folder / "bin"


@pytest.fixture
def installed_agor(commands: Path, mark: Mark, temporary_folder: Path) -> Iterator[Agor]:
    agor = Agor(commands / "agor", temporary_folder / "h", mark)
    yield agor
    agor("daemon", "stop", "--force")
    remove_groups(agor.home / "run")


def test_the_wheel_has_every_file_of_the_package(wheel: Path):
    there = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "agor").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    with zipfile.ZipFile(wheel) as archive:
        assert there <= set(archive.namelist())


def test_what_was_installed_runs_an_agent(installed_agor: Agor, tmp_path: Path):
    env = os.environ | installed_agor.mark.env | installed_agor.env

    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [installed_agor.command, *arguments], env=env, cwd=tmp_path,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONG,
        )  # fmt: skip

    assert command("--version").stdout == f"agor {agor.__version__}\n"
    done = command("run", "--agent", "scripted", "hello there")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("hello there\n")
    status, page = background.ask(installed_agor.url, "/docs")
    assert (status, b"<title>agor</title>" in page) == (200, True)
    assert command("agent", "list").returncode == 0

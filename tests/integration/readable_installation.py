"""An installation of agor that every Unix user can run: the tests' own may lie below /root.

The locked dependencies are installed once and kept for the next run; agor itself, as a wheel of the
working tree, is installed for this run only.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_PYTHON = "/usr/bin/python3"
_CACHE = Path("/var/cache/agor-tests")
#: Seconds for one command; the dependencies may come over a slow network.
_TIMEOUT = 110


@contextlib.contextmanager
def readable_installation() -> Iterator[Path]:
    """Install agor; gives the folder of its commands."""
    folder = Path(tempfile.mkdtemp(prefix="agor-test-", dir="/opt"))
    try:
        folder.chmod(0o755)
        _run(_PYTHON, "-m", "venv", "--without-pip", str(folder))
        python = folder / "bin" / "python"
        packages = next(folder.glob("lib/python*/site-packages"))
        (packages / "locked.pth").write_text(f"{_dependencies(python)}\n")
        with tempfile.TemporaryDirectory() as wheels:
            pip = ("--no-deps", "--quiet")
            _pip("wheel", *pip, "--no-build-isolation", "--wheel-dir", wheels, str(_ROOT))
            built = next(Path(wheels).glob("*.whl"))
            _pip("--python", str(python), "install", *pip, str(built))
        yield python.parent
    finally:
        shutil.rmtree(folder)


def _dependencies(python: Path) -> Path:
    """Install what agor needs at run time, as locked, unless an earlier run has done it."""
    locked = _locked()
    version = subprocess.check_output([python, "-VV"], text=True)
    digest = hashlib.sha256((version + locked).encode()).hexdigest()[:16]
    folder = _CACHE / f"dependencies-{digest}"
    _CACHE.mkdir(mode=0o755, parents=True, exist_ok=True)
    found = _CACHE.stat()
    assert found.st_uid == 0, f"{_CACHE} is not root's"
    assert not found.st_mode & 0o022, f"{_CACHE} can be changed by others"
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            # Made beside and renamed: what is there is whole.
            with tempfile.TemporaryDirectory(dir=_CACHE) as fresh:
                wanted, target = Path(fresh, "wanted.txt"), Path(fresh, "packages")
                wanted.write_text(locked)
                how = ("--no-deps", "--quiet", "--require-hashes", "--target", str(target))
                _pip("--python", str(python), "install", *how, "--requirement", str(wanted))
                target.chmod(0o755)
                target.rename(folder)
    return folder


def _locked() -> str:
    """The part of the lock file that is needed at run time, hashes included."""
    lock = (_ROOT / "requirements.lock").read_text()
    found = re.findall(r"^([\w.-]+)(==.*\n(?:[ \t].*\n)*)", lock, re.MULTILINE)
    entries = {_plain(name): entry for name, entry in found}
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["claude"]]
    wanted = {_plain(re.split(r"[^\w.-]", line)[0]) for line in lines}
    while True:
        more = {name for name, entry in entries.items() if _needed_by(entry) & wanted} - wanted
        if not more:
            return "".join(f"{name}{entries[name]}" for name in sorted(wanted))
        wanted |= more


def _needed_by(entry: str) -> set[str]:
    _, _, users = entry.partition("# via")
    return {_plain(user) for user in re.findall(r"[\w.-]+", users)}


def _plain(name: str) -> str:
    """Spell a package's name in the one way that all its spellings share."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _pip(*arguments: str) -> None:
    _run(sys.executable, "-m", "pip", *arguments)


def _run(*command: str) -> None:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        cwd="/",
        env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"},
        umask=0o022,
    )
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stderr}"

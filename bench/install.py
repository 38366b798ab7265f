"""What the benchmarks need besides the product: compiled C, npm packages, a Python environment.

All of it lands in ignored folders below this one. A stamp records what an install was made from,
so that the next run finds it done. A missing tool or a failed install raises `UnavailableError`
with the reason: whoever needs it is left out, the rest goes on.
"""

import hashlib
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from bench.machine import node_version

BENCH = Path(__file__).parent
PEERS = BENCH / "peers"
BUILT = BENCH / "build"
INSTALLED = BENCH / ".peers"

INSTALL_SECONDS = 300


class UnavailableError(Exception):
    """Something a peer needs is not here; the message says what."""


def tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise UnavailableError(f"{name} is not installed")
    return path


def compiled(source: Path) -> str:
    """The program made from one C file. A second to compile: always done afresh."""
    program = BUILT / source.stem
    BUILT.mkdir(exist_ok=True)
    command = [tool("cc"), "-O2", "-std=gnu11", "-Wall", "-Wextra", "-o", str(program), str(source)]
    _run(f"compiling {source.name}", command)
    return str(program)


def node_modules(
    locked: Path = PEERS, folder: Path = INSTALLED / "node", native: tuple[str, ...] = ()
) -> Path:
    """The folder with the npm packages of the lock file; only the `native` ones run scripts."""
    npm = tool("npm")
    inputs = [locked / "package.json", locked / "package-lock.json"]
    # What is compiled is good for one version of Node only.
    facts = [platform.machine(), *native, str(node_version()) if native else ""]
    made_from = _fingerprint(inputs, *filter(None, facts))
    if not _is_stamped(folder, made_from):
        _empty(folder)
        for file in inputs:
            shutil.copy(file, folder)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        _run("installing the npm peers", command, cwd=folder)
        for package in native:
            _run(f"building {package}", [npm, "rebuild", package, "--foreground-scripts"], folder)
        _stamp(folder, made_from)
    return folder / "node_modules"


def peers_python(locked: Path = PEERS, folder: Path = INSTALLED / "python") -> str:
    """The interpreter of an environment with the Python packages of the lock file."""
    lock = locked / "requirements.lock"
    interpreter = folder / "bin" / "python"
    made_from = _fingerprint([lock], sys.version)
    if not _is_stamped(folder, made_from):
        _empty(folder)
        _run("making the Python peers' environment", [sys.executable, "-m", "venv", str(folder)])
        pip = [str(interpreter), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        command = [*pip, "--require-hashes", "--requirement", str(lock)]
        _run("installing the Python peers", command)
        _stamp(folder, made_from)
    return str(interpreter)


def _run(doing: str, command: list[str], cwd: Path | None = None) -> None:
    print(f"bench: {doing}", file=sys.stderr)
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"{doing} took over {INSTALL_SECONDS} s") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        raise UnavailableError(f"{doing} failed: {said[-1][:200]}")


def _fingerprint(files: list[Path], *facts: str) -> str:
    digest = hashlib.sha256("\n".join(facts).encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _is_stamped(folder: Path, made_from: str) -> bool:
    try:
        return (folder / "stamp").read_text(encoding="ascii") == made_from
    except FileNotFoundError:
        return False


def _stamp(folder: Path, made_from: str) -> None:
    (folder / "stamp").write_text(made_from, encoding="ascii")


def _empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)

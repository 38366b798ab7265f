"""Runs npm in a folder, with a lock file, and says in words why it failed if it did.

Scripts of packages are not run: nothing that was downloaded starts before all of it is known to be
what the lock file says. Where packages come from is up to npm's own settings.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from agor.errors import InstallFailed
from agor.installing.command import run

_OPTIONS = (
    "--ignore-scripts",
    # Whatever npm's own settings say: the lock file holds, and agents come in optional packages.
    "--package-lock=true", "--no-save", "--include=optional", "--omit=dev", "--global=false",
    "--no-audit", "--no-fund", "--no-update-notifier", "--no-progress", "--loglevel=error",
    "--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=2000",
    "--fetch-timeout=120000",
)  # fmt: skip
_CODE = re.compile(r"^npm (?:error|ERR!) code (\w+)", re.MULTILINE)
#: Its lines of words; others have facts that only npm's makers need.
_WORDS = re.compile(
    r"^npm (?:error|ERR!) (?!code |errno |syscall |path |dest |type |A complete log)(.+)",
    re.MULTILINE,
)
#: Who we are to the registry, in its address.
_LOGIN = re.compile(r"//[^/\s]+@")

_NO_REGISTRY = (
    "the npm registry cannot be reached",
    "`npm config get registry` says where npm looks, `npm config get https-proxy` by which way.",
)
_REFUSED = ("the npm registry refuses", "`npm config get registry` says who was asked.")
_NOT_WRITABLE = ("npm may not write there", "Choose another folder: execution.agents_folder")
#: What npm's codes mean, and what to do about it.
_FAULTS: Mapping[str, tuple[str, str | None]] = {
    **dict.fromkeys(
        ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "EHOSTUNREACH",
         "ENETUNREACH", "ERR_SOCKET_TIMEOUT", "EIDLETIMEOUT"), _NO_REGISTRY,
    ),
    **dict.fromkeys(("E401", "E403"), _REFUSED),
    **dict.fromkeys(("EACCES", "EPERM", "EROFS"), _NOT_WRITABLE),
    "ENOSPC": ("the disk is full", "Make room, or choose another folder: execution.agents_folder"),
    "EINTEGRITY": (
        "what was downloaded is not what this version of agor knows",
        "The registry, or a mirror of it, gives out something else. Nothing of it was run.",
    ),
    "E404": ("the registry does not have it", "`npm config get registry` says who was asked."),
    "ETARGET": ("the registry does not have it", "`npm config get registry` says who was asked."),
}  # fmt: skip


def install(npm: str, folder: Path, lock: bytes, *, agent: str, held: int) -> None:
    """Install what a lock file says into a folder. npm goes on holding the descriptor `held`."""
    root = json.loads(lock)["packages"][""]
    package = {"private": True, "dependencies": root["dependencies"]}
    (folder / "package.json").write_text(json.dumps(package, indent=2) + "\n", encoding="utf-8")
    (folder / "package-lock.json").write_bytes(lock)
    command = [npm, "install", "--prefix", str(folder), *_OPTIONS]
    # Set by npm for what it starts itself; it would be told twice where we run inside of it.
    env = {name: value for name, value in os.environ.items() if name != "npm_config_prefix"}
    done = run(command, cwd=folder, env=env, held=held, agent=agent)
    if done.exit_code != 0:
        raise _explain(agent, done.errors or done.said)


def _explain(agent: str, said: str) -> InstallFailed:
    code = _CODE.search(said)
    words = next((line.strip() for line in _WORDS.findall(said) if line.strip()), None)
    details = _LOGIN.sub("//***@", words or said.strip()[-400:] or "npm did not say why")[:400]
    name = code[1] if code else ""
    if name not in _FAULTS:
        return InstallFailed(f"cannot install {agent}: npm failed: {details}")
    what, to_do = _FAULTS[name]
    return InstallFailed(f"cannot install {agent}: {what} ({name}: {details})", hint=to_do)

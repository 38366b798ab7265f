"""Runs git as a Unix identity, in one way for all: this is the only place that starts it.

A repository can name programs for git to run: hooks, fsmonitor, filters. So git runs with exactly
the rights of the person whose work it is, never with ours in their place; git's own check that a
repository is its user's (safe.directory) stays on; and what only looks runs no hook at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agor.environments import errands
from agor.environments.errands import Ran
from agor.environments.identity import UnixIdentity
from agor.errors import EnvironmentFailed, GitFailed
from agor.protocol.validation import quoted

#: Seconds for a question about a repository, and for what reads or writes all of its files.
QUICK = 30.0
THOROUGH = 900.0
#: Bytes of an answer that is not meant to be long.
_SHORT = 1024 * 1024
_LONGEST_REASON = 600

#: Settings that hold whatever a repository's own say.
_HARDENED = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.askPass=",
    "core.pager=cat",
    "core.quotePath=false",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "color.ui=false",
    # What is saved is on the disk before its folder goes; git leaves single objects to the kernel.
    "core.fsync=committed",
    "core.fsyncMethod=batch",
)
_ENVIRONMENT = {
    "LANG": "C",
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    # A look must not take a lock that an agent's own git would then find taken.
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_ALLOW_PROTOCOL": "",
}

#: What git says → what to do about it. The first that is found counts.
_ADVICE = {
    "dubious ownership": "It belongs to another Unix user, whose hooks and filters git would run. "
    "If {user} trusts it, then as {user}: git config --global --add safe.directory {cwd}",
    "No space left on device": "Make room on that disk. Nothing was lost.",
    "Disk quota exceeded": "The quota of {user} is used up: make room. Nothing was lost.",
    "Read-only file system": "That disk can only be read: mount it for writing. Nothing was lost.",
    "couldn't write": "Is there room on that disk, and may it be written to? Nothing was lost.",
    "unable to create": "Is there room on that disk, and may it be written to? Nothing was lost.",
    "unable to write": "Is there room on that disk, and may it be written to? Nothing was lost.",
    "Permission denied": "{user} may not write there. Give {user} the right, or clone the "
    "repository: a clone is their own.",
    ".lock': File exists": "Another git is at work there; try again. If there is none, remove that "
    "lock file.",
    "Could not resolve host": "Is the address right, and has this machine a network?",
    "could not read Username": "It wants a sign-in. Set up a credential helper or an SSH key for "
    "{user}.",
    "Host key verification failed": "{user} does not know this host yet. As {user}, connect once "
    "with ssh and check its key.",
}
_SECRET_IN_URL = re.compile(r"(://)[^/@\s]+@")


@dataclass(frozen=True, slots=True)
class Git:
    """Git in one folder, as one person."""

    identity: UnixIdentity
    cwd: str

    def at(self, folder: str) -> Git:
        """Be the same person elsewhere."""
        return Git(self.identity, folder)

    async def __call__(
        self,
        *arguments: str,
        timeout: float = QUICK,
        max_output: int = _SHORT,
        codes: Sequence[int] = (0,),
        env: Mapping[str, str] | None = None,
        may_be_cut: bool = False,
    ) -> Ran:
        """Run git; raises `GitFailed` unless it ends in time with one of these codes."""
        settings = [word for setting in _HARDENED for word in ("-c", setting)]
        ran = await self.shell(
            ["git", *settings, *arguments], timeout=timeout, max_output=max_output,
            env=_ENVIRONMENT | dict(env or {}),
        )  # fmt: skip
        if ran.cut is not None:
            if may_be_cut:
                return ran
            raise GitFailed(
                f"git {arguments[0]} in {quoted(self.cwd)} was ended: "
                + (f"it took more than {timeout:g} s" if ran.cut == "time" else "it said too much"),
                hint="The repository may be very large, or its disk very slow.",
            )
        if ran.exit_code not in codes:
            raise self._failed(arguments[0], ran)
        return ran

    async def text(self, *arguments: str, timeout: float = QUICK) -> str:
        """Run git for an answer of one line."""
        return (await self(*arguments, timeout=timeout)).stdout.decode(errors="replace").strip("\n")

    async def shell(
        self,
        command: Sequence[str],
        *,
        timeout: float = QUICK,
        max_output: int = _SHORT,
        env: Mapping[str, str] | None = None,
    ) -> Ran:
        """Run another command as the same person, whatever comes of it."""
        try:
            return await errands.run(
                self.identity, command, cwd=self.cwd, env=_ENVIRONMENT | dict(env or {}),
                timeout=timeout, max_output=max_output,
            )  # fmt: skip
        except EnvironmentFailed as error:
            raise GitFailed(error.message, hint=error.hint) from error

    def _failed(self, what: str, ran: Ran) -> GitFailed:
        said = reason(ran)
        if ran.exit_code == 127:
            return GitFailed("there is no git on this machine", hint="Install it: apt install git")
        if ran.exit_code == 126:
            return GitFailed(
                f"{self.identity.name} cannot work in {quoted(self.cwd)}: {said}",
                hint="Does the folder exist, and may this user enter it and all above it?",
            )
        if said.startswith("sudo:"):
            return GitFailed(
                f"cannot run git as {self.identity.name}: {said}",
                hint=f"`agor doctor --as {self.identity.name}` says what is missing.",
            )
        return GitFailed(
            f"git {what} failed in {quoted(self.cwd)}: {said}",
            hint=next(
                (
                    advice.format(user=self.identity.name, cwd=self.cwd)
                    for sign, advice in _ADVICE.items()
                    if sign in said
                ),
                None,
            ),
        )


def reason(ran: Ran) -> str:
    """Say in one line why a command failed, as far as it told."""
    text = ran.stderr.decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("fatal:", "error:", "sudo:"))] or lines[-2:]
    joined = "; ".join(line.removeprefix("fatal: ").removeprefix("error: ") for line in told)
    plain = "".join(c if c.isprintable() else " " for c in _SECRET_IN_URL.sub(r"\1…@", joined))
    return plain[:_LONGEST_REASON] or f"it ended with code {ran.exit_code}"

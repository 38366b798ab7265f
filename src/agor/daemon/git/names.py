"""Names that people give: of repositories, of worktrees, of branches. What could escape is refused.

A name becomes a folder, a branch becomes a file below `refs/heads`, and both become words of a
command. So they are checked here, before git or the file system sees them.
"""

from __future__ import annotations

import re

from agor.errors import Unprocessable
from agor.protocol.validation import quoted

#: Short enough for a folder's name with something added to it.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}")
_LONGEST_BRANCH = 200
_LONGEST_REVISION = 250
#: What git forbids in a reference (git-check-ref-format), spaces and controls included.
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def check_name(field: str, name: str) -> str:
    """Take a name for a folder of ours; raises `Unprocessable`."""
    lowered = name.lower()
    if (
        not _NAME.fullmatch(name)
        or ".." in name
        or lowered.endswith((".lock", ".git", "."))
        or not name.isascii()
    ):
        raise Unprocessable(
            f"{field}: {quoted(name)} cannot be a name",
            hint="Use up to 64 letters, digits, _, - and single dots; begin with a letter or a "
            "digit, and do not end with .lock or .git.",
        )
    return name


def name_from(text: str) -> str:
    """Make a name out of whatever a folder or an address is called."""
    base = text.rstrip("/").rpartition("/")[2].rpartition(":")[2].removesuffix(".git")
    plain = re.sub(r"\.{2,}", ".", re.sub(r"[^A-Za-z0-9._+-]+", "-", base)).strip(".-+")
    while plain.lower().endswith((".lock", ".git")):
        plain = plain.rpartition(".")[0].strip(".-+")
    return plain[:48].strip(".-+") or "repository"


def check_branch(branch: str) -> str:
    """Take the name of a branch; raises `Unprocessable`."""
    parts = branch.split("/")
    if (
        _FORBIDDEN.search(branch)
        or not branch
        or not _is_text(branch)
        or len(branch.encode()) > _LONGEST_BRANCH
        or branch.startswith("-")
        or branch.endswith(".")
        or branch in ("@", "HEAD")
        or parts[0] == "refs"
        or any(not part or part.startswith(".") or part.endswith(".lock") for part in parts)
    ):
        raise Unprocessable(
            f"branch: {quoted(branch)} cannot be the name of a branch",
            hint="As git has it: no spaces, no .. ~ ^ : ? * [ \\ @{, nothing that begins with - or "
            f". or ends with .lock, at most {_LONGEST_BRANCH} bytes. For example: fix/login",
        )
    return branch


def check_revision(field: str, revision: str) -> str:
    """Take the name of a commit, to be looked up; raises `Unprocessable`."""
    if (
        not revision
        or not _is_text(revision)
        or len(revision.encode()) > _LONGEST_REVISION
        or revision.startswith("-")
        or _CONTROL.search(revision)
        or " " in revision
        # `:path` and `rev:path` are files, `^{/text}` searches the whole history.
        or ":" in revision
        or "^{/" in revision
    ):
        raise Unprocessable(
            f"{field}: {quoted(revision)} cannot name a commit",
            hint="Name a branch, a tag or a commit: main, origin/main, v1.2, 3f2c1ab.",
        )
    return revision


def shown(path: bytes) -> str:
    """Spell a path for people: odd bytes as \\x…, so that it is text and tells what it is."""
    return path.decode("utf-8", "backslashreplace")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

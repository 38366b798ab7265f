"""Paths that a tool names, read as text: what leads where, as far as that can be told. Pure.

A text cannot tell what is a symbolic link. So a path with `..` in it is nowhere in particular: it
is not read as if `a/..` were nothing.
"""

from __future__ import annotations

import posixpath

#: What `git` and the agents themselves run or obey (hooks, servers, permissions of their own): who
#: may change a file there may have anything run later on.
_GUARDED = frozenset(
    (".git", ".claude", ".codex", ".gemini", ".opencode", ".mcp.json", "opencode.json",
     "opencode.jsonc")
)  # fmt: skip


def plain(path: str, workspace: str) -> str | None:
    """Make a path absolute; none if it is one that plays tricks (`..`, `.`, `//`, `~`).

    A relative one is in the workspace. A `./` at the beginning and a `/` at the end are no trick.
    """
    if not path.startswith("/"):
        path = f"{workspace.rstrip('/')}/{path.removeprefix('./')}"
    path = path.removesuffix("/")
    first, *parts = path.split("/")
    if first or not parts or any(part in ("", ".", "..") or part[0] == "~" for part in parts):
        return None
    return path


def below(path: str, folder: str) -> str | None:
    """Give what is left of a plain path below a folder; none if it is not below it."""
    start = f"{folder.rstrip('/')}/"
    return path[len(start) :] if path.startswith(start) else None


def is_guarded(path: str) -> bool:
    """Tell whether a path goes into a `.git`, or to the settings of an agent."""
    return not _GUARDED.isdisjoint(path.casefold().split("/"))


def resolved(path: str, workspace: str) -> str:
    """Make a path absolute and short, as most programs would, whatever tricks it plays."""
    # Two slashes at the beginning are kept by `normpath`, for systems on which they mean something.
    return posixpath.normpath(f"/{posixpath.join(workspace, path).lstrip('/')}")

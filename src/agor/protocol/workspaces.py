"""Repositories and worktrees, as the daemon's HTTP interface takes and gives them. Pure data."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from agor.protocol.api import FolderPath, Given, Sent
from agor.protocol.events import Problem

#: `making` and `removing` tell, after a crash, what was under way.
WorktreeStatus = Literal["making", "ready", "removing"]
RepoStatus = Literal["cloning", "ready", "failed"]
#: Where a worktree's folder is: as we made it; gone; moved elsewhere; locked by somebody (with git
#: worktree lock); or there, and it cannot be looked at.
FolderState = Literal["there", "gone", "moved", "locked", "unreadable"]
OrphanKind = Literal[
    "folder_gone", "folder_moved", "half_made", "half_removed", "unknown_folder", "unknown_branch",
    "partial_clone",
]  # fmt: skip

#: What a name or a branch may be is said in words when it is refused.
_Word = Annotated[str, Meta(min_length=1, max_length=300, pattern=r"^[^\x00]*$")]
_Url = Annotated[str, Meta(min_length=1, max_length=2048, pattern=r"^[^\x00]*$")]

# ── repositories ─────────────────────────────────────────────────────────────────────────────


class NewRepo(Sent):
    """A repository to work on: either one that is there (`path`), or one to clone (`url`)."""

    path: FolderPath | None = None
    url: _Url | None = None
    name: _Word | None = None


class Repo(Given):
    """A repository that somebody works on. `problem` says why a clone has failed."""

    repo_id: str
    name: str
    path: str
    url: str | None
    status: RepoStatus
    problem: Problem | None
    user_id: str
    created_at: int


# ── worktrees ────────────────────────────────────────────────────────────────────────────────


class NewWorktree(Sent):
    """A worktree to make: on a new branch that begins at `base`, by default the HEAD."""

    name: _Word | None = None
    branch: _Word | None = None
    base: _Word | None = None


class Worktree(Given):
    """A working tree of a repository, on a branch of its own."""

    worktree_id: str
    repo_id: str
    user_id: str
    name: str
    path: str
    branch: str
    #: What its branch began at, as it was called, and the commit that this was.
    base: str
    base_commit: str
    status: WorktreeStatus
    created_at: int


class ChangedFile(Given):
    """A file that is in no commit as it is. `code` is git's: two letters, or `?` for a new one."""

    path: str
    code: str


class WorktreeState(Given):
    """How a worktree stands now. Counts are null where they cannot be told."""

    folder: FolderState
    #: Why it is locked, where it was moved, why it cannot be looked at.
    detail: str | None = None
    head_commit: str | None = None
    #: None if no branch is checked out.
    head_branch: str | None = None
    changed: int | None = None
    untracked: int | None = None
    #: Entries that git is told to ignore. They are in no difference, and go with the folder.
    ignored: int | None = None
    #: The first hundred.
    files: list[ChangedFile] = field(default_factory=list)
    ahead: int | None = None
    behind: int | None = None
    unpushed: int | None = None
    disk_bytes: int | None = None
    #: Whether these are counts of what was seen until the time was up: at least so many.
    counts_cut: bool = False
    disk_cut: bool = False


class WorktreeDetails(Worktree):
    """A worktree, the sessions that work in it, and how it stands."""

    session_ids: list[str]
    state: WorktreeState


class WorktreeRemoved(Given):
    """What became of a worktree's parts."""

    worktree_id: str
    path: str
    branch: str
    #: Why the branch was kept; null if it was deleted, its commits being elsewhere as well.
    branch_kept: str | None
    #: The ref and commit that hold what was discarded; null if there was nothing.
    saved_ref: str | None
    saved_commit: str | None
    #: Entries that git was told to ignore, and that are gone.
    ignored: int | None


# ── differences ──────────────────────────────────────────────────────────────────────────────


class FileChange(Given):
    """One file that differs. Additions and deletions are lines; null for binary files."""

    path: str
    old_path: str | None
    #: Git's: A added, M changed, D deleted, R renamed, T of another kind, U in conflict.
    status: str
    additions: int | None
    deletions: int | None
    binary: bool


class Diff(Given):
    """A worktree's files against the commit it began at; uncommitted and new ones included."""

    worktree_id: str
    base_commit: str
    head_commit: str
    files: list[FileChange]
    files_cut: bool
    patch: str
    patch_cut: bool


# ── orphans ──────────────────────────────────────────────────────────────────────────────────


class Orphan(Given):
    """Something that was left behind: in our books and not on the disk, or the other way round."""

    kind: OrphanKind
    detail: str
    path: str | None = None
    branch: str | None = None
    repo_id: str | None = None
    worktree_id: str | None = None
    #: Why it is kept: it holds work, or its owner has to decide. Null: nothing is lost with it.
    kept: str | None = None
    removed: bool = False


class Prune(Sent):
    """Whether to only tell what would be removed."""

    dry_run: bool = False


class Orphans(Given):
    """All that was found; what could not be looked at is in `unseen`."""

    items: list[Orphan]
    unseen: list[str]

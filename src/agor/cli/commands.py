"""The commands of `agor`: each is a module, imported when it is asked for.

The words of `agor --help` are here as well, so that they can be shown without the modules; a test
compares them with the commands' own.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command


class Entry(NamedTuple):
    """A command: the module whose `app` it is, and its line in `agor --help`."""

    module: str
    help: str


COMMANDS = {
    "run": Entry("run", "Ask an agent to do something in this folder, and watch it."),
    "session": Entry("session", "Go back to sessions, and on with them."),
    "terminal": Entry("terminal", "Open shells where agents work."),
    "permission": Entry("permission", "See what agents ask for, and answer."),
    "daemon": Entry("daemon", "Start and stop the daemon, and see how it is."),
    "config": Entry("config", "Look at the settings and change them."),
    "user": Entry("user", "Add people, and say what they may do."),
    "token": Entry("token", "Make tokens for programs, and revoke them."),
    "rule": Entry("rule", "Answer permission requests in advance."),
    "audit": Entry("audit", "See what happened, and that nobody changed the log."),
    "credential": Entry("credential", "Keep the API keys that agents work with."),
    "agent": Entry("agent", "Install agents, and see whether they can work."),
    "repo": Entry("repo", "Register and clone repositories."),
    "worktree": Entry("worktree", "Make worktrees, look at them, remove them."),
    "backup": Entry("backup", "Write everything the daemon keeps to one file, while it runs."),
    "restore": Entry("restore", "Put a backup in the place of what the daemon keeps."),
    "demo": Entry(
        "demo", "Watch Claude Code work against a scripted model; needs no account and no key."
    ),
    "doctor": Entry(
        "doctor", "Check this machine: what works, what does not, and what to do about it."
    ),
    "model-server": Entry(
        "model_server", "Serve a scripted model on this machine, to test agents without a provider."
    ),
}


class Commands(TyperGroup):
    """Knows all commands by name, and each by itself once it is asked for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # For the list in the help, and for suggestions. They are never run.
        for name, entry in COMMANDS.items():
            self.add_command(TyperCommand(name, help=entry.help))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command that is meant, and import it."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else load(name), rest


def load(name: str) -> Any:
    """Import a command."""
    app: typer.Typer = import_module(f"agor.cli.{COMMANDS[name].module}").app
    # Much of the daemon comes with its log, which takes long to import. Most commands have none.
    if "structlog" in sys.modules:
        from agor import logs

        logs.configure("warning", "console")
    command = get_command(app)
    command.name = name
    return command
